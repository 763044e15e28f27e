"""From a model's name to a running engine: device, number type, the form of the matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

from bunny_engine.engine import EngineOptions, LocalEngine
from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source
from bunny_engine.linear import HalfLinear, Linear, has_fast_bfloat16, has_half_gemm
from bunny_engine.model import Model
from bunny_engine.tokenizer import TextTokenizer, load_tokenizer
from bunny_engine.types import ModelInfo
from bunny_engine.weights import Checkpoint, load

__all__ = [
    "DTYPES",
    "DeviceName",
    "DtypeName",
    "WeightsName",
    "choose_device",
    "choose_dtype",
    "open_engine",
    "open_model",
]

DeviceName = Literal["auto", "cpu", "cuda"]
DtypeName = Literal["auto", "float32", "bfloat16"]
WeightsName = Literal["auto", "native"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def choose_device(name: DeviceName = "auto") -> torch.device:
    """Raises OptionError where the named device is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise OptionError("no CUDA device is at hand: pass --device cpu, or install a CUDA build of torch")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def choose_dtype(name: DtypeName, device: torch.device) -> torch.dtype:
    """`auto`: bfloat16 where the hardware multiplies it, float32 elsewhere."""
    if name != "auto":
        return DTYPES[name]
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else has_fast_bfloat16()
    return torch.bfloat16 if fast else torch.float32


def open_model(
    source: Source,
    *,
    device: DeviceName = "auto",
    dtype: DtypeName = "auto",
    weights: WeightsName = "auto",
    context: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[Model, Checkpoint]:
    """The model on its device. Raises OptionError, DamagedWeights, UnsupportedModel."""
    where = choose_device(device)
    checkpoint = load(source, choose_dtype(dtype, where), progress)
    trained = checkpoint.config.context
    if context is not None and not 1 <= context <= trained:
        raise OptionError(f"context {context}: this model was trained for 1 to {trained} tokens")
    # Asking for float32 by name means float32 throughout; the default may decode from float16 copies.
    form = _form(choose_dtype(dtype, where), where, weights if dtype == "auto" else "native")
    tensors = {name: tensor.to(where) for name, tensor in checkpoint.tensors.items()}
    with torch.inference_mode():
        model = Model(checkpoint.config, tensors, form, context)
    return model, checkpoint


def open_engine(
    source: Source,
    *,
    device: DeviceName = "auto",
    dtype: DtypeName = "auto",
    weights: WeightsName = "auto",
    options: Callable[[int], EngineOptions] = lambda context: EngineOptions(context=context),
    context: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[LocalEngine, TextTokenizer]:
    """A running engine and its tokenizer; `options` is called with the context's length.

    Raises OptionError, DamagedWeights, UnsupportedModel.
    """
    model, checkpoint = open_model(
        source, device=device, dtype=dtype, weights=weights, context=context, progress=progress
    )
    tokenizer = load_tokenizer(source)
    length = context or checkpoint.config.context
    info = ModelInfo(
        name=checkpoint.name,
        context_length=length,
        vocab_size=checkpoint.config.vocab,
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        created=checkpoint.created,
    )
    return LocalEngine(model, info, tokenizer.eos_ids, options(length)), tokenizer


def _form(dtype: torch.dtype, device: torch.device, weights: WeightsName) -> type[Linear]:
    if weights == "auto" and dtype == torch.float32 and device.type == "cpu" and has_half_gemm():
        return HalfLinear
    return Linear
