"""Memory policies by name: how a sequence's memory is made, and how many bytes it will take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from bunny_engine.config import ModelConfig
from bunny_engine.errors import OptionError
from bunny_engine.memory import DenseMemory, Memory
from bunny_engine.memory_blocks import BlockMemory, Shape
from bunny_engine.memory_choice import Tally
from bunny_engine.model import Model
from bunny_engine.packing import BITS

__all__ = ["FORMS", "PLACES", "POLICIES", "Policy"]

POLICIES = {
    "full": "every key and value, unquantised",
    "bsr": "the first block and the newest ones dense, the older ones sealed in few bits",
    "top-blocks": "as bsr, but only the most promising sealed blocks are rebuilt and attended",
    "window": "the first block and the newest ones; older ones are forgotten",
}
FORMS = {
    "auto": "the smaller of the two",
    "kv": "keys before RoPE, and values",
    "x": "the layer's normed input, of which keys and values are made anew",
}
PLACES = ("device", "host")
_INPUT_BITS = (8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Raises OptionError. Sizes in tokens and blocks."""

    name: str = "full"
    block: int = 512
    resident: int = 2  # newest blocks kept dense
    bits: int = 8  # of a sealed number
    form: str = "auto"  # what is sealed: see FORMS
    most: int = 4  # sealed blocks that top-blocks rebuilds a layer and step
    place: str = "device"  # where sealed blocks lie

    def __post_init__(self) -> None:
        if self.name not in POLICIES:
            raise OptionError(f"--memory {self.name!r}; choices: {', '.join(POLICIES)}")
        if self.block < 64 or self.block % 64:
            raise OptionError(f"--block-size {self.block}: a multiple of 64, the tokens that share a scale")
        if self.resident < 1:
            raise OptionError(f"--resident-blocks {self.resident}: at least 1, the one that grows")
        if self.bits not in BITS:
            raise OptionError(f"--bits {self.bits}; choices: {', '.join(map(str, BITS))}")
        if self.form not in FORMS:
            raise OptionError(f"--form {self.form!r}; choices: {', '.join(FORMS)}")
        if self.form == "x" and self.bits not in _INPUT_BITS:
            raise OptionError(f"--form x --bits {self.bits}: layer inputs are stored in 8 or 16 bits")
        if self.most < 1:
            raise OptionError(f"--top-blocks {self.most}: at least 1")
        if self.place not in PLACES:
            raise OptionError(f"--placement {self.place!r}; choices: {', '.join(PLACES)}")

    @property
    def seals(self) -> bool:
        """Whether older blocks are stored at all."""
        return self.name in ("bsr", "top-blocks")

    def new(self, model: Model, capacity: int, tally: Tally | None = None) -> Memory:
        """A memory for a sequence of up to `capacity` tokens, which counts what it does in `tally`."""
        if self.name == "full":
            return DenseMemory(model.config, capacity, model.dtype, model.device)
        return BlockMemory(model, capacity, self.shape(model.config), tally or Tally())

    def bytes_for(self, config: ModelConfig, tokens: int, dtype: torch.dtype) -> int:
        """Bytes that a sequence of `tokens` takes, to the byte."""
        if self.name == "full":
            return DenseMemory.bytes_for(config, tokens, dtype)
        return self.shape(config).bytes_for(config, tokens, dtype)

    def shape(self, config: ModelConfig) -> Shape:
        """What is built for a model of this shape; `full` has none."""
        return Shape(
            block=self.block,
            resident=self.resident,
            form=self.stored_form(config)[0] if self.seals else "none",
            bits=self.bits,
            most=self.most if self.name == "top-blocks" else None,
            host=self.place == "host",
        )

    def stored_form(self, config: ModelConfig) -> tuple[Literal["kv", "x"], str]:
        """The form that is stored for this model, and why."""
        width, rows = config.width, 2 * config.kv_rows
        sizes = f"d = {width:,} against 2·g·dh = {rows:,} numbers a token and layer"
        if self.form == "x" or self.form == "kv":
            return ("x" if self.form == "x" else "kv"), f"it was asked for; {sizes}"
        if width >= rows:
            return "kv", f"keys and values are not larger than the layer's input: {sizes}"
        if self.bits not in _INPUT_BITS:
            return "kv", f"layer inputs are not stored in {self.bits} bits, though they are smaller: {sizes}"
        return "x", f"the layer's input is smaller: {sizes}"

    def describe(self, config: ModelConfig, device: torch.device) -> str:
        """The policy in a sentence, for the log."""
        said = f"memory {self.name}: {POLICIES[self.name]}"
        if not self.seals:
            return said
        form, why = self.stored_form(config)
        said += f"; stored form {form} in {self.bits} bits ({FORMS[form]}), because {why}"
        if self.place == "host":
            same = "; on a CPU host memory is the same memory as the device's, so --placement changes nothing"
            said += same if device.type == "cpu" else "; in pinned host memory, fetched a layer ahead"
        return said

    @property
    def window(self) -> str:
        """What a token can see, in words."""
        newest = (self.resident - 1) * self.block + 1
        dense = f"the first {self.block} tokens and the newest {newest} to {self.resident * self.block}"
        if self.name == "window":
            return dense
        if self.name == "top-blocks":
            return f"{dense}, and {self.most} blocks of {self.block} between them, chosen anew at each step"
        return "every token"
