"""From a model's name to a running engine: device, number type, the form of the matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import torch

from bunny_engine.config import ModelConfig
from bunny_engine.engine import EngineOptions, LocalEngine
from bunny_engine.errors import OptionError
from bunny_engine.fetch import Source
from bunny_engine.gguf_file import GgufFile
from bunny_engine.linear import (
    HalfLinear,
    Int4HalfLinear,
    Int4Linear,
    Int4Product,
    Int8Linear,
    Linear,
    has_fast_bfloat16,
    has_half_gemm,
)
from bunny_engine.model import Model
from bunny_engine.recipe import Recipe
from bunny_engine.stored import Stored
from bunny_engine.tokenizer import TextTokenizer, load_tokenizer
from bunny_engine.types import ModelInfo
from bunny_engine.weights import Checkpoint, load

__all__ = [
    "DTYPES",
    "FOUR_BITS",
    "DeviceName",
    "DtypeName",
    "bits_by_layer",
    "choose_device",
    "choose_dtype",
    "choose_recipe",
    "describe",
    "has_four_bits",
    "kernel",
    "open_engine",
    "open_model",
]

DeviceName = Literal["auto", "cpu", "cuda"]
DtypeName = Literal["auto", "float32", "bfloat16"]
FOUR_BITS = "half,mlp=int4,attn=int4"  # for a file in Q4_0 or Q4_1: its own numbers
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
    weights: str = "auto",
    context: int | None = None,
    compiled: bool = False,
    progress: Callable[[str], None] | None = None,
) -> tuple[Model, Checkpoint]:
    """The model on its device; `weights` is a table of forms, see `recipe`. `compiled`: decode runs through a
    step that this machine's C compiler makes, and `auto` weights keep a file's own four bits.

    Raises OptionError, DamagedWeights, UnsupportedModel.
    """
    where = choose_device(device)
    if compiled and where.type != "cpu":
        raise OptionError("--compile is for a CPU: a GPU has kernels of its own; leave it out")
    number = choose_dtype(dtype, where)
    if compiled and weights == "auto" and has_four_bits(source):
        weights = FOUR_BITS
    checkpoint = load(source, number, choose_recipe(weights, dtype, where), progress)
    trained = checkpoint.config.context
    if context is not None and not 1 <= context <= trained:
        raise OptionError(f"context {context}: this model was trained for 1 to {trained} tokens")
    tensors = {name: tensor.to(where) for name, tensor in checkpoint.tensors.items()}
    form = partial(kernel, number, where, decodes=not compiled)
    with torch.inference_mode():
        model = Model(checkpoint.config, tensors, form, context, number)
        if compiled:
            from bunny_engine.native.decode import attach

            attach(model, tensors, progress)
    if progress:
        for line in describe(checkpoint, form):
            progress(line)
    return model, checkpoint


def open_engine(
    source: Source,
    *,
    device: DeviceName = "auto",
    dtype: DtypeName = "auto",
    weights: str = "auto",
    options: Callable[[int], EngineOptions] = lambda context: EngineOptions(context=context),
    context: int | None = None,
    compiled: bool = False,
    tokenizer: TextTokenizer | None = None,
    progress: Callable[[str], None] | None = None,
) -> tuple[LocalEngine, TextTokenizer]:
    """A running engine and its tokenizer. `options` is called with the context's length; `tokenizer` is the
    source's own, where it is loaded already.

    Raises OptionError, DamagedWeights, UnsupportedModel.
    """
    model, checkpoint = open_model(
        source,
        device=device,
        dtype=dtype,
        weights=weights,
        context=context,
        compiled=compiled,
        progress=progress,
    )
    tokenizer = tokenizer or load_tokenizer(source)
    length = context or checkpoint.config.context
    chosen = options(length)
    if compiled and chosen.policy.name not in ("full", "window"):
        raise OptionError(
            f"--compile reads dense keys and values only, and --memory {chosen.policy.name} seals them: "
            "take --memory full or window, or leave --compile out"
        )
    if model.device.type == "cuda":
        _use_kernels(model, chosen, progress)
    info = ModelInfo(
        name=checkpoint.name,
        context_length=length,
        vocab_size=checkpoint.config.vocab,
        device=str(model.device),
        dtype=str(model.dtype).removeprefix("torch."),
        created=checkpoint.created,
    )
    return LocalEngine(model, info, tokenizer.eos_ids, chosen), tokenizer


def _use_kernels(model: Model, options: EngineOptions, progress: Callable[[str], None] | None) -> None:
    try:
        from bunny_engine.kernels.decode import attach
    except ImportError:
        if progress:
            progress("triton is not installed: sequences decode one by one; pip install 'space-bunny[gpu]'")
        return
    attach(model, options.policy, options.context)


def choose_recipe(weights: str, dtype: DtypeName, device: torch.device) -> Recipe:
    """`auto`: float16 copies where the CPU multiplies those faster than float32, else the file's own numbers.

    Asking for float32 by name means float32 throughout. Raises OptionError.
    """
    if weights != "auto":
        return Recipe.parse(weights)
    halves = dtype == "auto" and choose_dtype(dtype, device) == torch.float32 and device.type == "cpu"
    return Recipe.parse("half" if halves and has_half_gemm() else "native")


def has_four_bits(source: Source) -> bool:
    """Whether the layers' matrices are in four bits in the file, in groups that int4 keeps as they are."""
    if source.kind != "gguf":
        return False
    with GgufFile(source.path) as file:
        layers = [info for name, info in file.tensors.items() if name.startswith("blk.")]
    return {info.kind for info in layers if len(info.shape) == 2} <= {2, 3}  # Q4_0 and Q4_1, in ggml's numbers


def kernel(dtype: torch.dtype, device: torch.device, stored: Stored, *, decodes: bool = True) -> type[Linear]:
    """What a matrix is multiplied by. Four bits have a kernel of their own, eight have one where bfloat16 is
    fast; else few bits are a way to store, and are turned into float16 or `dtype` when the model is loaded.
    `decodes`: whether single rows are multiplied, and not prompts alone.
    """
    if device.type != "cpu":
        return Linear
    if decodes and dtype == torch.bfloat16:
        if stored.form == "int8":
            return Int8Linear
        return Int4Linear if Int4Product.fits(stored) else Linear
    if decodes and dtype == torch.float32 and has_half_gemm() and Int4Product.fits(stored):
        return Int4HalfLinear
    full = stored.form == "dense" and stored.parts[""].dtype == torch.float32
    return HalfLinear if dtype == torch.float32 and not full and has_half_gemm() else Linear


def describe(checkpoint: Checkpoint, form: Callable[[Stored], type[Linear]]) -> Iterator[str]:
    """Bits a weight, layer by layer where they differ, and what they are multiplied as."""
    yield from bits_by_layer(checkpoint.config, checkpoint.forms)
    stored = sum(matrix.nbytes for matrix in checkpoint.matrices.values())
    weights = sum(matrix.shape[0] * matrix.shape[1] for matrix in checkpoint.matrices.values())
    yield f"{stored / 1e6:,.0f} MB of matrices, {8 * stored / weights:.2f} bits a weight"
    ways = sorted({f"{checkpoint.forms[name]} {form(m).says}" for name, m in checkpoint.matrices.items()})
    yield "; ".join(ways)


def bits_by_layer(config: ModelConfig, forms: Mapping[str, str]) -> Iterator[str]:
    """Bits a weight of each matrix that is kept in one of `forms`; a line for all layers that are alike."""
    shapes = config.shapes()

    def bits(name: str) -> str:
        rows, columns = shapes[name]
        return f"{Stored.bits_of(forms[name], (rows, columns)):.4g} ({forms[name]})"

    ends = ", ".join(f"{name} {bits(name)}" for name in ("embed", "head") if name in forms)
    yield f"bits a weight: {ends}"
    layers: dict[str, list[int]] = {}
    for layer in range(config.layers):
        mine = f"layers.{layer}."
        said = ", ".join(f"{name.removeprefix(mine)} {bits(name)}" for name in forms if name.startswith(mine))
        layers.setdefault(said, []).append(layer)
    for said, members in layers.items():
        yield f"  layers {_ranges(members)}: {said}"


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as 1-3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
