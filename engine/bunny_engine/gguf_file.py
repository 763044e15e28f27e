"""The GGUF container: metadata and tensors of a file that is not trusted.

Every count, length and extent is checked against the bytes that are there before it is used, so a cut or
mutated file ends in DamagedWeights. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bunny_engine.errors import DamagedWeights, UnsupportedModel

__all__ = ["GgufFile", "TensorInfo"]

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES = 1 << 20  # of metadata and of tensors: far above any real model, far below what hurts
_ROWS_AT_ONCE = 1 << 22  # weights dequantised in one go: bounds the working memory


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]  # row-major: the last axis is contiguous
    kind: int  # ggml's number for the stored type
    offset: int  # bytes from the start of the file
    nbytes: int


class GgufFile:
    """`metadata` by key, `tensors` by name; `read` dequantises one tensor to float32.

    Raises DamagedWeights or UnsupportedModel on opening, never later for the container's sake.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            if path.stat().st_size < 32:
                raise DamagedWeights(f"{path}: too short to be a GGUF file")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._size = len(self._map)
        try:
            self._parse()
        except BaseException:
            self._map.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._map.close()

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor as float32, row-major."""
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize

        info = self.tensors[name]
        kind = GGMLQuantizationType(info.kind)
        columns = info.shape[-1]
        rows = math.prod(info.shape[:-1])
        row_bytes = info.nbytes // rows
        result = np.empty((rows, columns), np.float32)
        step = max(1, _ROWS_AT_ONCE // columns)
        with np.errstate(all="ignore"):  # a damaged scale may overflow: the caller checks for finite numbers
            for start in range(0, rows, step):
                count = min(step, rows - start)
                raw = self._map[info.offset + start * row_bytes : info.offset + (start + count) * row_bytes]
                packed = np.frombuffer(raw, np.uint8).reshape(count, row_bytes)
                if info.kind == GGMLQuantizationType.F32:
                    result[start : start + count] = packed.view(np.float32)
                elif info.kind == GGMLQuantizationType.F16:
                    result[start : start + count] = packed.view(np.float16)
                else:
                    result[start : start + count] = dequantize(packed, kind)
        return result.reshape(info.shape)

    def _parse(self) -> None:
        self._at = 0
        magic, version, tensor_count, entry_count = self._take("<4sIQQ")
        if magic != b"GGUF":
            raise self._damaged("it does not begin with 'GGUF'")
        if version not in (2, 3):
            swapped = int.from_bytes(int(version).to_bytes(4, "little"), "big")
            if swapped in (2, 3):
                raise UnsupportedModel(f"{self.path}: a big-endian GGUF file; only little-endian ones are read")
            raise UnsupportedModel(f"{self.path}: GGUF version {version}; versions 2 and 3 are read")
        if tensor_count > _MOST_ENTRIES or entry_count > _MOST_ENTRIES:
            raise self._damaged(f"it claims {tensor_count} tensors and {entry_count} metadata entries")
        self.metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            key = self._string()
            if key in self.metadata:
                raise self._damaged(f"metadata {key!r} appears twice")
            self.metadata[key] = self._value(self._take("<I")[0])
        self.tensors = self._tensor_table(tensor_count)

    def _tensor_table(self, count: int) -> dict[str, TensorInfo]:
        from gguf.constants import GGML_QUANT_SIZES

        sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
        alignment = self.metadata.get("general.alignment", 32)
        if (
            not isinstance(alignment, int)
            or alignment < 8
            or alignment > 1 << 16
            or alignment & (alignment - 1)
        ):
            raise self._damaged(f"alignment {alignment!r}")
        found: dict[str, TensorInfo] = {}
        for _ in range(count):
            name = self._string()
            (axes,) = self._take("<I")
            if not 1 <= axes <= 4:
                raise self._damaged(f"tensor {name!r} has {axes} axes")
            shape = tuple(reversed(self._take(f"<{axes}Q")))
            kind, offset = self._take("<IQ")
            if kind not in sizes:
                raise self._damaged(f"tensor {name!r} is of the unknown type {kind}")
            block, block_bytes = sizes[kind]
            elements = math.prod(shape)
            if elements == 0 or shape[-1] % block or offset % alignment:
                raise self._damaged(f"tensor {name!r} has shape {shape}, offset {offset} and type {kind}")
            if name in found:
                raise self._damaged(f"tensor {name!r} appears twice")
            found[name] = TensorInfo(name, shape, kind, offset, elements // block * block_bytes)
        start = -(-self._at // alignment) * alignment
        placed = {
            name: TensorInfo(name, info.shape, info.kind, start + info.offset, info.nbytes)
            for name, info in found.items()
        }
        end = start
        for info in sorted(placed.values(), key=lambda info: info.offset):
            if info.offset < end:
                raise self._damaged(f"tensor {info.name!r} overlaps another one")
            end = info.offset + info.nbytes
            if end > self._size:
                raise self._damaged(
                    f"tensor {info.name!r} ends at byte {end:,} of {self._size:,}; the file was cut"
                )
        return placed

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self._take("<" + _SCALARS[kind])[0]
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY or depth > 3:
            raise self._damaged(f"metadata of the unknown type {kind}")
        inner, count = self._take("<IQ")
        if inner in _SCALARS:
            self._room(count * struct.calcsize("<" + _SCALARS[inner]))
            return list(self._take(f"<{count}{_SCALARS[inner]}"))
        self._room(count * 8)  # every string or array takes eight bytes at least
        if inner == _STRING:
            return [self._string() for _ in range(count)]
        return [self._value(inner, depth + 1) for _ in range(count)]

    def _string(self) -> str:
        (length,) = self._take("<Q")
        self._room(length)
        raw = self._map[self._at : self._at + length]
        self._at += length
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self._damaged(f"bytes {self._at - length} to {self._at} are not UTF-8") from None

    def _take(self, layout: str) -> tuple[Any, ...]:
        size = struct.calcsize(layout)
        self._room(size)
        values = struct.unpack_from(layout, self._map, self._at)
        self._at += size
        return values

    def _room(self, size: int) -> None:
        if size > self._size - self._at:
            raise self._damaged(
                f"{size:,} bytes are announced at byte {self._at:,} of {self._size:,}; the file was cut"
            )

    def _damaged(self, what: str) -> DamagedWeights:
        return DamagedWeights(f"{self.path}: {what}")
