"""Decode on a CPU as one compiled call: see `step.c`, whose structures are mirrored here.

Matrices are kept a second time, in the order that the step reads them, in the fewest bits that hold them: four
and eight bits as they are, everything else as float16.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bunny_engine.errors import OptionError
from bunny_engine.linear import checked
from bunny_engine.memory import Memory, Seat
from bunny_engine.model import Model
from bunny_engine.native.build import library
from bunny_engine.stored import Stored

__all__ = ["Decoder", "attach"]

_LANES, _GROUP = 16, 32  # of step.c
_HALF, _INT8, _INT4 = range(3)
_MOST = 16  # sequences a call: a matrix is read once for all of them


class _Matrix(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("kind", "rows", "columns")),
        *((name, ctypes.c_void_p) for name in ("codes", "scale", "steps", "bias")),
    ]


class _Layer(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("attn_norm", "mlp_norm", "q_norm", "k_norm", "attn_post_norm", "mlp_post_norm")
        ),
        *((name, _Matrix) for name in ("qkv", "out", "gate_up", "down")),
        ("window", ctypes.c_int),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int)
            for name in (
                "layers", "width", "heads", "kv_heads", "head_dim", "ffn", "vocab", "gelu", "bfloat16",
            )
        ),
        ("eps", ctypes.c_float),
        ("norm", ctypes.c_void_p),
        ("layer", ctypes.POINTER(_Layer)),
        ("head", _Matrix),
    ]  # fmt: skip


class _Sequence(ctypes.Structure):
    _fields_ = [
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("room", ctypes.c_long),
        ("at", ctypes.c_long),
        *((name, ctypes.c_void_p) for name in ("cos", "sin", "local_cos", "local_sin")),
    ]


class Decoder:
    """`tensors` are those that the model was made of. Raises OptionError where there is no compiler, or the
    model's shape is none of the step's.
    """

    def __init__(
        self,
        model: Model,
        tensors: Mapping[str, Tensor | Stored],
        progress: Callable[[str], None] | None = None,
    ) -> None:
        c = model.config
        if c.head_dim % 8:
            raise OptionError(f"--compile: heads of {c.head_dim} are not made of eights; leave --compile out")
        self._library = library(progress)
        self._model = model
        self._held: list[Tensor] = []  # what the structures point to
        self._work = torch.empty(0)
        names = [name for name in c.matrices() if name != "embed" or c.tied]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            packed = dict(zip(names, pool.map(lambda name: _packed(tensors[name]), names), strict=True))
        self.nbytes = sum(
            part.nbytes for parts in packed.values() for part in parts if isinstance(part, Tensor)
        )

        def pointer(tensor: Tensor | Stored | None) -> int | None:
            if not isinstance(tensor, Tensor):
                return None
            self._held.append(
                tensor.float().contiguous() if tensor.is_floating_point() else tensor.contiguous()
            )
            return self._held[-1].data_ptr()

        def matrix(name: str, bias: str = "") -> _Matrix:
            kind, rows, columns, codes, scale, steps = packed[name]
            parts = (pointer(part) for part in (codes, scale, steps, tensors.get(bias)))
            return _Matrix(kind, rows, columns, *parts)

        def layer(index: int) -> _Layer:
            mine = f"layers.{index}."
            norms = ("attn_norm", "mlp_norm", "q_norm", "k_norm", "attn_post_norm", "mlp_post_norm")
            return _Layer(
                *(pointer(tensors.get(mine + name)) for name in norms),
                matrix(mine + "qkv", mine + "qkv_bias"),
                *(matrix(mine + name) for name in ("out", "gate_up", "down")),
                c.window(index) or 0,
            )

        self._layers = (_Layer * c.layers)(*(layer(index) for index in range(c.layers)))
        self._plan = _Model(
            c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.vocab,
            c.activation == "gelu_tanh", model.dtype == torch.bfloat16, c.norm_eps,
            pointer(tensors["norm"]), self._layers, matrix("embed" if c.tied else "head"),
        )  # fmt: skip

    def tokens(self, ids: Sequence[int], memories: Sequence[Memory]) -> Tensor | None:
        """Float32 logits [sequences, vocab] of one more token each, which the memories then hold.

        None where one of them holds what the step does not read: nothing has happened then.
        """
        seats = [seat for memory in memories if (seat := memory.seat()) is not None and not seat.sealed]
        if len(seats) < len(memories):
            return None
        model, n = self._model, len(ids)
        x = model.embedded(torch.tensor(ids)).float().contiguous()
        positions = torch.tensor([memory.length for memory in memories])
        angles = (*model.rope.at(positions), *model.local_rope.at(positions))
        sequences = (_Sequence * n)(*(_seated(seat, row, angles) for row, seat in enumerate(seats)))
        threads = torch.get_num_threads()
        floats = self._library.work_floats(ctypes.byref(self._plan), n, sequences, threads)
        if floats > len(self._work):
            self._work = torch.empty(floats + floats // 2)
        logits = torch.empty(n, model.config.vocab)
        self._library.step(
            ctypes.byref(self._plan), n, sequences, *(_address(t) for t in (x, logits, self._work)), threads
        )
        for memory in memories:
            memory.advance(1)
        return logits


def attach(
    model: Model, tensors: Mapping[str, Tensor | Stored], progress: Callable[[str], None] | None = None
) -> None:
    """Let the model's decode run through the compiled step. Raises OptionError."""
    decoder = Decoder(model, tensors, progress)
    model.decoder, model.tile = decoder, _MOST
    if progress:
        progress(f"decode is compiled: it reads {decoder.nbytes / 1e6:,.0f} MB of matrices a token")


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _seated(seat: Seat, row: int, angles: Sequence[Tensor]) -> _Sequence:
    places = (each.data_ptr() + row * each.stride(0) * each.itemsize for each in angles)
    return _Sequence(seat.k.data_ptr(), seat.v.data_ptr(), seat.k.shape[2], seat.dense, *places)


def _packed(stored: Any) -> tuple[int, int, int, Tensor, Tensor | None, Tensor | None]:
    """Kind, rows (filled up to whole blocks), columns, codes, scales, and scales with least values."""
    stored = stored if isinstance(stored, Stored) else Stored.dense_of(stored)
    rows, columns = stored.shape
    fill = -rows % _LANES
    if stored.form == "int4" and columns % _GROUP == 0:
        groups = columns // _GROUP
        codes, scale, least = stored.codes4()
        halves = F.pad(codes.to(torch.uint8), (0, 0, 0, fill)).view(-1, _LANES, groups, 2, _GROUP // 2)
        pairs = (halves[:, :, :, 0] | halves[:, :, :, 1] << 4).permute(0, 2, 3, 1).contiguous()
        steps = F.pad(torch.stack((scale, least), -1).half(), (0, 0, 0, 0, 0, fill))
        steps = steps.view(-1, _LANES, groups, 2).permute(0, 2, 3, 1).contiguous().view(torch.int16)
        return _INT4, rows + fill, columns, pairs, None, steps
    if stored.form == "int8":
        codes = F.pad(stored.parts["codes"], (0, 0, 0, fill)).view(-1, _LANES, columns).transpose(1, 2)
        return _INT8, rows + fill, columns, codes.contiguous(), F.pad(stored.parts["scale"], (0, fill)), None
    numbers = F.pad(checked(stored.dense(torch.float16)), (0, 0, 0, fill)).view(-1, _LANES, columns)
    return _HALF, rows + fill, columns, numbers.transpose(1, 2).contiguous().view(torch.int16), None, None
