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
        return tensor.float()

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape that the file states for `name`; None when it is not there."""
        if name not in self._where:
            return None
        opened, full = self._where[name]
        return tuple(opened.get_slice(full).get_shape())

    def frequencies(self) -> dict[str, Tensor]:
        """RoPE frequencies: float32, [head_dim / 2]. Raises DamagedWeights, UnsupportedModel."""
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
        rope = self.raw.get("rope_parameters")
        base = (
            rope.get("rope_theta", 10_000.0) if isinstance(rope, dict) else self.raw.get("rope_theta", 10_000.0)
        )
        if isinstance(base, bool) or not isinstance(base, int | float):
            raise DamagedWeights(f"{self.folder}/config.json: rope_theta is {base!r}")
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
            rope_base=float(base),
            tied="lm_head.weight" not in self._where or bool(self.raw.get("tie_word_embeddings")),
            qkv_bias="layers.0.self_attn.q_proj.bias" in self._where,
            qk_norm="layers.0.self_attn.q_norm.weight" in self._where,
        )

    def _number(self, key: str, default: Any = None, kind: type = int) -> Any:
        value = self.raw.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
            raise DamagedWeights(
                f"{self.folder}/config.json: {key} is {'missing' if value is None else repr(value)}"
            )
        return value


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises DamagedWeights."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedWeights(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise DamagedWeights(f"{path}: not a JSON object")
    return value
