"""A Hugging Face folder read as a model: config.json and safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.errors import DamagedWeights, UnsupportedModel
from bunny_engine.rope import frequencies

__all__ = ["HfModel"]

_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma3ForCausalLM": "gemma3",
}


class HfModel:
    """`config`, and `read(name)` for float32 tensors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw = read_json(folder / "config.json")
        self._files: list[Any] = []
        self._where: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            try:
                opened: Any = safe_open(path, framework="pt")
                self._files.append(opened)
                names = opened.keys()
            except (SafetensorError, OSError, ValueError) as error:
                raise DamagedWeights(f"{path}: {error}") from None
            for name in names:
                short = name.removeprefix("model.")
                if short in self._where:
                    raise DamagedWeights(f"{path}: tensor {name!r} appears twice")
                self._where[short] = (opened, name)
        self.config = self._configuration()

    def close(self) -> None:
        self._files.clear()
        self._where.clear()

    def read(self, name: str) -> Tensor:
        """The tensor called `name` (without "model."), float32. Raises DamagedWeights, UnsupportedModel."""
        opened, full = self._find(name)
        try:
            tensor: Tensor = opened.get_tensor(full)
        except (SafetensorError, OSError, ValueError) as error:
            raise DamagedWeights(f"{self.folder}: tensor {full!r}: {error}") from None
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise UnsupportedModel(f"{self.folder}: tensor {full!r} is {tensor.dtype}; float types are read")
        tensor = tensor.float()
        if self.config.architecture == "gemma3" and tensor.dim() == 1:
            return gemma_norm(tensor + 1, name, self.config.head_dim, self._scalar())
        return tensor

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape that the file states for `name`; None when it is not there."""
        if name not in self._where:
            return None
        opened, full = self._where[name]
        return tuple(opened.get_slice(full).get_shape())

    def frequencies(self) -> dict[str, Tensor]:
        """RoPE frequencies by name: float32, [head_dim / 2]. Raises DamagedWeights, UnsupportedModel."""
        if self.config.architecture == "gemma3":
            whole, local = self._gemma_ropes()
            found = {"inv_freq": frequencies(self.config.head_dim, self.config.rope_base, whole)}
            if self.config.local_window:
                base = self._base(local.get("rope_theta", 10_000.0))
                found["inv_freq_local"] = frequencies(self.config.head_dim, base, local)
            return found
        scaling = self.raw.get("rope_parameters") or self.raw.get("rope_scaling")
        if scaling is not None and not isinstance(scaling, dict):
            raise DamagedWeights(f"{self.folder}/config.json: rope_scaling is {scaling!r}")
        return {"inv_freq": frequencies(self.config.head_dim, self.config.rope_base, scaling)}

    def _find(self, name: str) -> Any:
        if name not in self._where:
            raise DamagedWeights(f"{self.folder}: tensor {name!r} is missing")
        return self._where[name]

    def _configuration(self) -> ModelConfig:
        names = self.raw.get("architectures")
        named = names[0] if isinstance(names, list) and names else None
        if named not in _ARCHITECTURES:
            known = ", ".join(sorted(_ARCHITECTURES))
            raise UnsupportedModel(
                f"{self.folder}/config.json: architecture {named!r}; these run here: {known}"
            )
        if self.raw.get("sliding_window") and self.raw.get("use_sliding_window", named == "MistralForCausalLM"):
            raise UnsupportedModel(f"{self.folder}/config.json: sliding-window attention is not implemented")
        if self.raw.get("hidden_act", "silu") not in ("silu", "swish"):
            raise UnsupportedModel(f"{self.folder}/config.json: activation {self.raw['hidden_act']!r}")
        for key in ("attention_bias", "mlp_bias"):
            if self.raw.get(key) and named == "LlamaForCausalLM":
                raise UnsupportedModel(f"{self.folder}/config.json: {key} is not implemented")
        heads, width = self._number("num_attention_heads"), self._number("hidden_size")
        gemma = self._gemma(width) if named == "Gemma3ForCausalLM" else {}
        rope = self._gemma_ropes()[0] if gemma else self.raw.get("rope_parameters")
        base = (
            rope.get("rope_theta", 10_000.0) if isinstance(rope, dict) else self.raw.get("rope_theta", 10_000.0)
        )
        return ModelConfig(
            architecture=_ARCHITECTURES[named],
            layers=self._number("num_hidden_layers"),
            width=width,
            heads=heads,
            kv_heads=self._number("num_key_value_heads", heads),
            head_dim=self._number("head_dim", width // max(heads, 1)),
            ffn=self._number("intermediate_size"),
            vocab=self._number("vocab_size"),
            context=self._number("max_position_embeddings"),
            norm_eps=float(self._number("rms_norm_eps", 1e-6, kind=float)),
            rope_base=self._base(base),
            tied="lm_head.weight" not in self._where or bool(self.raw.get("tie_word_embeddings")),
            qkv_bias="layers.0.self_attn.q_proj.bias" in self._where,
            qk_norm="layers.0.self_attn.q_norm.weight" in self._where,
            **gemma,
        )

    def _gemma(self, width: int) -> dict[str, Any]:
        """What Gemma 3 has beyond the others. Raises UnsupportedModel, DamagedWeights."""
        where = f"{self.folder}/config.json"
        if self.raw.get("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
            raise UnsupportedModel(f"{where}: activation {self.raw['hidden_activation']!r}")
        for key in ("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention"):
            if self.raw.get(key):
                raise UnsupportedModel(f"{where}: {key} is not implemented")
        layers, window = self._number("num_hidden_layers"), self._number("sliding_window")
        every = self._number("sliding_window_pattern", self._number("_sliding_window_pattern", 6))
        kinds = self.raw.get("layer_types")
        if isinstance(kinds, list) and "full_attention" in kinds:
            every = kinds.index("full_attention") + 1
        if every < 1 or self._scalar() <= 0:
            raise DamagedWeights(f"{where}: sliding_window_pattern and query_pre_attn_scalar must be above 0")
        found = {"local_window": window, "global_every": every, "sandwich": True}
        found |= {"activation": "gelu_tanh", "embed_scale": width**0.5}
        if kinds is not None:
            pattern = ["full_attention" if (n + 1) % every == 0 else "sliding_attention" for n in range(layers)]
            if kinds != pattern:
                raise UnsupportedModel(f"{where}: layer_types do not repeat with a period of {every}")
        return found

    def _gemma_ropes(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The RoPE of layers that see all, and of local ones; two ways of writing them are about."""
        both = self.raw.get("rope_parameters")
        if isinstance(both, dict) and isinstance(both.get("full_attention"), dict):
            local = both.get("sliding_attention")
            return both["full_attention"], local if isinstance(local, dict) else {}
        scaling = self.raw.get("rope_scaling")
        whole = dict(scaling) if isinstance(scaling, dict) else {}
        whole["rope_theta"] = self.raw.get("rope_theta", 1_000_000.0)
        return whole, {"rope_theta": self.raw.get("rope_local_base_freq", 10_000.0)}

    def _base(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
            raise DamagedWeights(f"{self.folder}/config.json: rope_theta is {value!r}")
        return float(value)

    def _scalar(self) -> float:
        """What Gemma divides queries by, before its square root is taken."""
        return float(self._number("query_pre_attn_scalar", 256, kind=float))

    def _number(self, key: str, default: Any = None, kind: type = int) -> Any:
        value = self.raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            raise DamagedWeights(
                f"{self.folder}/config.json: {key} is {'missing' if value is None else repr(value)}"
            )
        return value


def gemma_norm(weight: Tensor, name: str, head_dim: int, scalar: float) -> Tensor:
    """A norm's factors; those of the queries take up what Gemma divides by, beside our √head_dim."""
    return weight * (head_dim / scalar) ** 0.5 if "q_norm" in name else weight


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises DamagedWeights."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedWeights(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise DamagedWeights(f"{path}: not a JSON object")
    return value
