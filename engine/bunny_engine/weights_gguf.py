"""A GGUF file read as a model: its configuration, and its tensors under the names that Hugging Face uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.errors import DamagedWeights, UnsupportedModel
from bunny_engine.gguf_file import GgufFile
from bunny_engine.rope import frequencies
from bunny_engine.weights_hf import gemma_norm

__all__ = ["GgufModel"]

_INTERLEAVED = ("llama",)  # architectures whose Q and K rows llama.cpp reorders for its own RoPE
_ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
_GEMMA_27B = 62  # layers: the one size that scales its queries by the width of a head, not by head_dim
_NAMES = {
    "embed_tokens.weight": "token_embd.weight",
    "norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
_SANDWICH = {
    "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}


class GgufModel:
    """`config`, and `read(name)` for float32 tensors with half-rotated Q and K."""

    def __init__(self, path: Path) -> None:
        self._file = GgufFile(path)
        try:
            self.config = _configuration(self._file)
        except BaseException:
            self.close()
            raise

    @property
    def metadata(self) -> dict[str, Any]:
        return self._file.metadata

    def close(self) -> None:
        self._file.__exit__(None, None, None)

    def read(self, name: str) -> Tensor:
        """The tensor that Hugging Face calls `name` (without "model."), float32. Raises DamagedWeights."""
        stored = self._stored_name(name)
        if stored not in self._file.tensors:
            raise DamagedWeights(f"{self._file.path}: tensor {stored!r} is missing")
        tensor = torch.from_numpy(self._file.read(stored))
        if self.config.architecture == "gemma3" and tensor.dim() == 1:  # the file's norms already are 1 + w
            c = self.config
            scalar = c.width // c.heads if c.layers == _GEMMA_27B else c.head_dim
            return gemma_norm(tensor, name, c.head_dim, scalar)
        projection = name.rpartition("self_attn.")[2].partition(".")[0]
        if self.config.architecture in _INTERLEAVED and projection in ("q_proj", "k_proj"):
            return _half_rotated(tensor, self.config.head_dim)
        return tensor

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape that the file states for `name`; None when it is not there."""
        info = self._file.tensors.get(self._stored_name(name))
        return info.shape if info else None

    def frequencies(self) -> dict[str, Tensor]:
        """RoPE frequencies by name: float32, [head_dim / 2]. Raises DamagedWeights, UnsupportedModel."""
        config, metadata, arch = self.config, self.metadata, self.config.architecture
        kind = metadata.get(f"{arch}.rope.scaling.type", "none")
        scaling = None
        if kind != "none":
            scaling = {"rope_type": kind, "factor": metadata.get(f"{arch}.rope.scaling.factor")}
        frequency = frequencies(config.head_dim, config.rope_base, scaling)
        if "rope_freqs.weight" in self._file.tensors:  # Llama 3's scaling, stored as divisors
            factors = torch.from_numpy(self._file.read("rope_freqs.weight"))
            if factors.shape != frequency.shape or not bool((factors > 0).all() & factors.isfinite().all()):
                raise DamagedWeights(f"{self._file.path}: rope_freqs.weight is not {len(frequency)} factors")
            frequency = frequency / factors
        if config.local_window is None:
            return {"inv_freq": frequency}
        local = metadata.get(f"{arch}.rope.freq_base_swa", 10_000.0)
        if not isinstance(local, int | float) or not 1 <= local < 1e12:
            raise DamagedWeights(f"{self._file.path}: metadata {arch}.rope.freq_base_swa is {local!r}")
        return {"inv_freq": frequency, "inv_freq_local": frequencies(config.head_dim, float(local))}

    def _stored_name(self, name: str) -> str:
        names = _NAMES | _SANDWICH if self.config.sandwich else _NAMES
        if name.startswith("layers."):
            _, layer, rest = name.split(".", 2)
            return f"blk.{layer}.{names[rest]}"
        return names[name]


def _half_rotated(tensor: Tensor, head_dim: int) -> Tensor:
    """Undo llama.cpp's order of Q and K rows, where the two halves of each head are interleaved."""
    rows = tensor.shape[0]
    paired = tensor.view(rows // head_dim, head_dim // 2, 2, *tensor.shape[1:])
    return paired.transpose(1, 2).reshape(tensor.shape).contiguous()


def _configuration(file: GgufFile) -> ModelConfig:
    arch = file.metadata.get("general.architecture")
    if arch not in _ARCHITECTURES:
        raise UnsupportedModel(
            f"{file.path}: architecture {arch!r}; these run here: {', '.join(_ARCHITECTURES)}"
        )
    if file.metadata.get(f"{arch}.expert_count"):
        raise UnsupportedModel(f"{file.path}: a mixture of experts; only dense models run here")
    gemma = arch == "gemma3"
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if file.metadata.get(f"{arch}.{key}"):
            raise UnsupportedModel(f"{file.path}: {key} is not implemented")
    if file.metadata.get(f"{arch}.attention.sliding_window") and not gemma:
        raise UnsupportedModel(f"{file.path}: sliding-window attention is not implemented")

    def value(key: str, convert: Callable[[Any], Any], default: Any = None) -> Any:
        found = file.metadata.get(f"{arch}.{key}", default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise DamagedWeights(
                f"{file.path}: metadata {arch}.{key} is {'missing' if found is None else repr(found)}"
            )
        return convert(found)

    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise DamagedWeights(f"{file.path}: tensor 'token_embd.weight' is missing or not a matrix")
    heads, width = value("attention.head_count", int), value("embedding_length", int)
    head_dim = value("attention.key_length", int, width // max(heads, 1))
    if value("rope.dimension_count", int, head_dim) != head_dim:
        raise UnsupportedModel(f"{file.path}: RoPE over a part of the head is not implemented")
    if value("attention.value_length", int, head_dim) != head_dim:
        raise UnsupportedModel(f"{file.path}: value heads of another size than key heads")
    return ModelConfig(
        architecture=str(arch),
        layers=value("block_count", int),
        width=width,
        heads=heads,
        kv_heads=value("attention.head_count_kv", int, heads),
        head_dim=head_dim,
        ffn=value("feed_forward_length", int),
        vocab=embedding.shape[0],
        context=value("context_length", int),
        norm_eps=value("attention.layer_norm_rms_epsilon", float),
        rope_base=value("rope.freq_base", float, 1_000_000.0 if gemma else 10_000.0),
        tied="output.weight" not in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        sandwich=gemma,
        activation="gelu_tanh" if gemma else "silu",
        embed_scale=width**0.5 if gemma else 1.0,
        local_window=value("attention.sliding_window", int) if gemma else None,
        global_every=value("attention.sliding_window_pattern", int, 6) if gemma else 1,
    )
