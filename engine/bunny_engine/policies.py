"""Memory policies by name: how a sequence's memory is made, and how many bytes it will take."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bunny_engine.config import ModelConfig
from bunny_engine.errors import OptionError
from bunny_engine.memory import DenseMemory, Memory
from bunny_engine.memory_blocks import BlockMemory
from bunny_engine.model import Model
from bunny_engine.packing import BITS

__all__ = ["POLICIES", "Policy"]

POLICIES = {
    "full": "every key and value, unquantised",
    "bsr": "the first block and the newest ones dense, the older ones sealed in few bits",
    "window": "the first block and the newest ones; older ones are forgotten",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Raises OptionError. `block`: tokens; `resident`: newest blocks kept dense; `bits`: of a sealed number."""

    name: str = "full"
    block: int = 512
    resident: int = 2
    bits: int = 8

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise OptionError(f"--memory {self.name!r}; choices: {', '.join(POLICIES)}")
        if self.block < 64 or self.block % 64:
            raise OptionError(f"--block-size {self.block}: a multiple of 64, the tokens that share a scale")
        if self.resident < 1:
            raise OptionError(f"--resident-blocks {self.resident}: at least 1, the one that grows")
        if self.bits not in BITS:
            raise OptionError(f"--bits {self.bits}; choices: {', '.join(map(str, BITS))}")

    def new(self, model: Model, capacity: int) -> Memory:
        """A memory for a sequence of up to `capacity` tokens."""
        if self.name == "full":
            return DenseMemory(model.config, capacity, model.dtype, model.device)
        return BlockMemory(
            model.config,
            capacity,
            model.dtype,
            model.device,
            rope=model.rope,
            block=self.block,
            resident=self.resident,
            bits=self._bits,
        )

    def bytes_for(self, config: ModelConfig, tokens: int, dtype: torch.dtype) -> int:
        """Bytes that a sequence of `tokens` takes, to the byte."""
        if self.name == "full":
            return DenseMemory.bytes_for(config, tokens, dtype)
        return BlockMemory.bytes_for(
            config, tokens, dtype, block=self.block, resident=self.resident, bits=self._bits
        )

    @property
    def window(self) -> str:
        """What a token can see, in words."""
        if self.name == "window":
            newest = (self.resident - 1) * self.block + 1
            return f"the first {self.block} tokens and the newest {newest} to {self.resident * self.block}"
        return "every token"

    @property
    def _bits(self) -> int | None:
        return self.bits if self.name == "bsr" else None
