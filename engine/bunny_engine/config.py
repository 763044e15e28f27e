"""The shape of a model, as its file states it, checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from bunny_engine.errors import DamagedWeights

__all__ = ["ModelConfig"]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes in elements. Raises DamagedWeights for what no model can have."""

    architecture: str
    layers: int
    width: int  # d, the hidden size
    heads: int
    kv_heads: int  # g, key and value heads; each serves heads / kv_heads query heads
    head_dim: int
    ffn: int
    vocab: int
    context: int  # tokens the model was trained for
    norm_eps: float
    rope_base: float
    tied: bool = True  # the output matrix is the embedding
    qkv_bias: bool = False
    qk_norm: bool = False  # RMSNorm on each head's query and key

    def __post_init__(self) -> None:
        for name, low, high in (
            ("layers", 1, 1024),
            ("width", 1, 1 << 16),
            ("heads", 1, 1024),
            ("kv_heads", 1, self.heads),
            ("head_dim", 2, 1024),
            ("ffn", 1, 1 << 20),
            ("vocab", 1, 1 << 22),
            ("context", 1, 1 << 28),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise DamagedWeights(f"the model states {name} = {value!r}; {low} to {high} is possible")
        for name, floor, ceiling in (("norm_eps", 0.0, 0.1), ("rope_base", 1.0, 1e12)):
            value = getattr(self, name)
            if not isinstance(value, float) or not math.isfinite(value) or not floor < value < ceiling:
                raise DamagedWeights(
                    f"the model states {name} = {value!r}; {floor:g} to {ceiling:g} is possible"
                )
        if self.heads % self.kv_heads:
            raise DamagedWeights(f"{self.heads} heads cannot share {self.kv_heads} key-value heads")
        if self.head_dim % 2:
            raise DamagedWeights(f"a head of {self.head_dim} cannot be rotated in pairs")

    @property
    def group(self) -> int:
        """Query heads that read one key-value head."""
        return self.heads // self.kv_heads

    @property
    def q_rows(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_rows(self) -> int:
        return self.kv_heads * self.head_dim

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The converted tensors by name; see `weights`."""
        found: dict[str, tuple[int, ...]] = {
            "embed": (self.vocab, self.width),
            "norm": (self.width,),
            "inv_freq": (self.head_dim // 2,),
        }
        if not self.tied:
            found["head"] = (self.vocab, self.width)
        for layer in range(self.layers):
            prefix = f"layers.{layer}."
            found[prefix + "attn_norm"] = found[prefix + "mlp_norm"] = (self.width,)
            found[prefix + "qkv"] = (self.q_rows + 2 * self.kv_rows, self.width)
            found[prefix + "out"] = (self.width, self.q_rows)
            found[prefix + "gate_up"] = (2 * self.ffn, self.width)
            found[prefix + "down"] = (self.width, self.ffn)
            if self.qkv_bias:
                found[prefix + "qkv_bias"] = (self.q_rows + 2 * self.kv_rows,)
            if self.qk_norm:
                found[prefix + "q_norm"] = found[prefix + "k_norm"] = (self.head_dim,)
        return found

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
