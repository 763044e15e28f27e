"""The shape of a model, as its file states it, checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

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
    sandwich: bool = False  # RMSNorm after attention and after the feed-forward part, too
    activation: Literal["silu", "gelu_tanh"] = "silu"
    embed_scale: float = 1.0
    local_window: int | None = None  # tokens that a local layer sees; None: every layer sees all
    global_every: int = 1  # each so many layers one sees all; the others are local

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
            ("global_every", 1, 1024),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise DamagedWeights(f"the model states {name} = {value!r}; {low} to {high} is possible")
        for name, floor, ceiling in (
            ("norm_eps", 0.0, 0.1),
            ("rope_base", 1.0, 1e12),
            ("embed_scale", 0.0, 1e4),
        ):
            value = getattr(self, name)
            if not isinstance(value, float) or not math.isfinite(value) or not floor < value < ceiling:
                raise DamagedWeights(
                    f"the model states {name} = {value!r}; {floor:g} to {ceiling:g} is possible"
                )
        if self.local_window is not None and not (
            type(self.local_window) is int and 1 <= self.local_window < 1 << 28
        ):
            raise DamagedWeights(f"the model states a sliding window of {self.local_window!r} tokens")
        if self.activation not in ("silu", "gelu_tanh"):
            raise DamagedWeights(f"the model states the activation {self.activation!r}")
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

    def sources(self) -> dict[str, tuple[tuple[str, tuple[int, ...]], ...]]:
        """What each converted tensor is stacked of: Hugging Face's names (without "model.") and shapes."""
        width, heads = (self.width,), (self.head_dim,)
        found: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {
            "embed": (("embed_tokens.weight", (self.vocab, self.width)),),
            "norm": (("norm.weight", width),),
        }
        if not self.tied:
            found["head"] = (("lm_head.weight", (self.vocab, self.width)),)
        rows = {"q": self.q_rows, "k": self.kv_rows, "v": self.kv_rows}
        for layer in range(self.layers):
            ours = theirs = f"layers.{layer}."
            attention, mlp = theirs + "self_attn.", theirs + "mlp."
            found[ours + "attn_norm"] = ((theirs + "input_layernorm.weight", width),)
            before_mlp = "pre_feedforward_layernorm" if self.sandwich else "post_attention_layernorm"
            found[ours + "mlp_norm"] = ((f"{theirs}{before_mlp}.weight", width),)
            if self.sandwich:
                found[ours + "attn_post_norm"] = ((theirs + "post_attention_layernorm.weight", width),)
                found[ours + "mlp_post_norm"] = ((theirs + "post_feedforward_layernorm.weight", width),)
            found[ours + "qkv"] = tuple((f"{attention}{n}_proj.weight", (rows[n], self.width)) for n in "qkv")
            found[ours + "out"] = ((attention + "o_proj.weight", (self.width, self.q_rows)),)
            found[ours + "gate_up"] = tuple(
                (f"{mlp}{n}_proj.weight", (self.ffn, self.width)) for n in ("gate", "up")
            )
            found[ours + "down"] = ((mlp + "down_proj.weight", (self.width, self.ffn)),)
            if self.qkv_bias:
                found[ours + "qkv_bias"] = tuple((f"{attention}{n}_proj.bias", (rows[n],)) for n in "qkv")
            if self.qk_norm:
                found[ours + "q_norm"] = ((attention + "q_norm.weight", heads),)
                found[ours + "k_norm"] = ((attention + "k_norm.weight", heads),)
        return found

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The converted tensors by name; see `weights`."""
        found = {
            ours: (sum(shape[0] for _, shape in parts), *parts[0][1][1:])
            for ours, parts in self.sources().items()
        }
        found["inv_freq"] = (self.head_dim // 2,)
        if self.local_window:
            found["inv_freq_local"] = (self.head_dim // 2,)
        return found

    def matrices(self) -> list[str]:
        """Names of those that are multiplied or looked up in."""
        return [name for name, shape in self.shapes().items() if len(shape) == 2]

    def window(self, layer: int) -> int | None:
        """Tokens that a layer sees, itself among them; None: all."""
        return (
            None
            if self.local_window is None or layer % self.global_every == self.global_every - 1
            else self.local_window
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
