"""Matrices in few bits and their kernels, against the plain product of what they stand for."""

from __future__ import annotations

import math

import gguf
import numpy as np
import pytest
import torch
from bunny_engine.linear import HalfLinear, Int4HalfLinear, Int4Linear, Int4Product, Int8Linear, Linear
from bunny_engine.stored import Stored
from hypothesis import given, settings
from hypothesis import strategies as st

FORMS = ("int8", "int6", "int4")


def matrix(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator) * torch.rand(rows, 1, generator=generator).exp()


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 130),
    form=st.sampled_from(FORMS),
    size=st.sampled_from([0.01, 1.0, 300.0]),
)
def test_a_number_moves_by_half_a_step_at_most(rows: int, columns: int, form: str, size: float) -> None:
    """Any shape, any size: the error is bounded by the step of the row or of the group of 32."""
    weight = matrix(rows, columns, seed=rows * 131 + columns) * size
    found = Stored.quantised(weight, form).dense()
    if form == "int8":
        step = weight.abs().amax(1, keepdim=True) / 127
        slack = 1e-6 * weight.abs().amax()
    else:
        groups = torch.nn.functional.pad(weight, (0, -columns % 32)).unflatten(1, (-1, 32))
        span = (groups.amax(-1) - groups.amin(-1)).repeat_interleave(32, dim=1)[:, :columns]
        step = span / (2 ** {"int6": 6, "int4": 4}[form] - 1)
        slack = 2**-10 * weight.abs().amax() + 4e-6  # scale and least value are float16, as in GGUF
    assert bool(((found - weight).abs() <= step / 2 + slack).all())


@pytest.mark.parametrize(("form", "bits"), [("int8", 8 + 32 / 256), ("int6", 7.0), ("int4", 5.0)])
def test_bits_a_weight_are_those_on_disk(form: str, bits: float) -> None:
    """What is announced is what the parts take, scales and all."""
    stored = Stored.quantised(matrix(64, 256), form)
    assert 8 * stored.nbytes / (64 * 256) == bits == Stored.bits_of(form, (64, 256))
    layout = Stored.layout(form, (64, 256))
    assert {name: (tuple(part.shape), part.dtype) for name, part in stored.parts.items()} == layout


@pytest.mark.parametrize("form", ["float32", "float16", *FORMS])
def test_rows_are_those_of_the_whole(form: str) -> None:
    """An embedding that is looked up is the matrix that is multiplied."""
    weight = matrix(50, 96)
    stored = (
        Stored.dense_of(weight.to(getattr(torch, form)))
        if form.startswith("float")
        else Stored.quantised(weight, form)
    )
    ids = torch.tensor([49, 0, 7, 7])
    assert torch.equal(stored.rows(ids, torch.float32), stored.dense()[ids])


def test_four_bits_keep_a_matrix_of_gguf_as_it_is() -> None:
    """Q4_1 has our groups and our steps: int4 gives its numbers back within float16's rounding."""
    kind = gguf.GGMLQuantizationType.Q4_1
    packed = gguf.quants.quantize(matrix(32, 128).numpy(), kind)
    weight = torch.from_numpy(gguf.quants.dequantize(packed, kind).astype(np.float32))
    found = Stored.quantised(weight, "int4").dense()
    assert float((found - weight).abs().max() / weight.abs().max()) < 2e-3
    assert float((Stored.quantised(weight, "int6").dense() - weight).abs().max() / weight.abs().max()) > 5e-3


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("form", ["dense", *FORMS])
def test_kernels_give_the_plain_product(form: str, bias: bool) -> None:
    """Each kernel against the product with the dequantised matrix, at one row and at many."""
    weight, shift = matrix(48, 128), matrix(1, 48)[0] if bias else None
    stored = Stored.dense_of(weight.half()) if form == "dense" else Stored.quantised(weight, form)
    x = matrix(7, 128, seed=5)
    kernels = {Linear: (torch.float32, 1e-5), HalfLinear: (torch.float32, 2e-3)}
    kernels |= {
        "int8": {Int8Linear: (torch.bfloat16, 2e-2)},
        "int4": {Int4Linear: (torch.bfloat16, 2e-2), Int4HalfLinear: (torch.float32, 2e-2)},
    }.get(form, {})
    for kernel, (dtype, tolerance) in kernels.items():
        made = kernel(stored, shift, dtype)
        made.prepare()
        inputs = x.to(dtype)
        want = torch.nn.functional.linear(inputs.float(), stored.dense(), shift)
        for rows in (1, 7):
            found = made(inputs[:rows]).float()
            assert float((found - want[:rows]).abs().max() / want.abs().max()) < tolerance, kernel
        tail = made.rows_from(16, inputs).float()
        assert float((tail - want[:, 16:]).abs().max() / want.abs().max()) < tolerance, kernel


def test_a_rows_bits_do_not_depend_on_how_many_are_multiplied() -> None:
    """One row, a batch and a prompt's chunk give a row the same bits, wherever it stands."""
    for rows, columns in ((96, 64), (40, 576), (64, 1536)):
        made = HalfLinear(Stored.dense_of(matrix(rows, columns).half()), None, torch.float32)
        x = matrix(300, columns, seed=9)
        whole = made(x)
        for count in (*range(1, 34), 64, 100, 127, 128, 255, 256, 257):
            for start in (0, 300 - count):
                assert torch.equal(made(x[start : start + count]), whole[start : start + count]), count


def test_four_bits_give_a_row_its_bits_in_any_batch() -> None:
    """Decode alone and decode beside others are one and the same."""
    made = Int4HalfLinear(Stored.quantised(matrix(64, 576), "int4"), None, torch.float32)
    x = matrix(8, 576, seed=3)
    whole = made(x)
    for count in range(1, 9):
        for start in range(9 - count):
            assert torch.equal(made(x[start : start + count]), whole[start : start + count])


def test_int4_kernel_refuses_shapes_it_cannot_take() -> None:
    """`fits` tells which matrices the kernel takes, so that others are multiplied another way."""
    assert Int4Product.fits(Stored.quantised(matrix(32, 64), "int4"))
    assert not Int4Product.fits(Stored.quantised(matrix(30, 64), "int4"))
    assert not Int4Product.fits(Stored.quantised(matrix(32, 40), "int4"))
    assert math.isclose(Stored.bits_of("int4", (32, 40)), 8 * 32 * 2 * 20 / (32 * 40))
