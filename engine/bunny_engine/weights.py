"""Converted weights: read once from the source, checked, kept in the cache, and memory-mapped from then on.

A conversion is one safetensors file under a key of the source's content and of the table of forms. Its tensors
are named as `ModelConfig.shapes` says: Q, K and V stacked into `qkv`, gate and up into `gate_up`; the parts of
a matrix in few bits follow its name after a colon.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bunny_engine.config import ModelConfig
from bunny_engine.conversions import conversion_dir, written
from bunny_engine.errors import DamagedWeights, WeightsError
from bunny_engine.fetch import Source
from bunny_engine.recipe import Recipe
from bunny_engine.stored import Stored

__all__ = ["Checkpoint", "Reader", "forms_of", "load", "open_reader"]

_DENSE = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Reader(Protocol):
    """An opened source: see `weights_gguf` and `weights_hf`."""

    config: ModelConfig

    def read(self, name: str) -> Tensor: ...
    def shape(self, name: str) -> tuple[int, ...] | None: ...
    def frequencies(self) -> dict[str, Tensor]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A converted model: tensors are views of the mapped file."""

    name: str
    config: ModelConfig
    vectors: dict[str, Tensor]  # norms, biases and frequencies, float32
    matrices: dict[str, Stored]
    forms: dict[str, str]  # of the matrices: float32, float16, bfloat16, int8, int6 or int4
    created: int  # seconds since the epoch
    folder: Path  # of the conversion, in the cache

    @property
    def tensors(self) -> dict[str, Tensor | Stored]:
        return {**self.vectors, **self.matrices}


def load(
    source: Source,
    dtype: torch.dtype,
    recipe: Recipe = Recipe(),  # noqa: B008 - a frozen value
    progress: Callable[[str], None] | None = None,
) -> Checkpoint:
    """The source's weights in the forms of `recipe`, `dtype` where it says native; converted now if that was
    not done before.

    Raises DamagedWeights or UnsupportedModel before anything is kept, OptionError for a recipe that fits not.
    """
    folder = conversion_dir(source)
    known = _known_matrices(source, folder)
    forms = forms_of(recipe, known, dtype)
    key = Recipe.key(forms)
    path = folder / f"weights-{key}.safetensors"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                if progress:
                    progress(f"converting {source.path.name} to {key}, once")
                _convert(source, forms, path)
    try:
        return _mapped(source, forms, path)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, WeightsError) as error:
        raise DamagedWeights(f"{path} is damaged ({error}); delete it and it is made anew") from None


def forms_of(recipe: Recipe, matrices: Iterable[str], dtype: torch.dtype) -> dict[str, str]:
    """What each matrix is kept as: float32, float16, bfloat16, int8, int6 or int4."""
    native = str(dtype).removeprefix("torch.")
    dense = {"native": native, "half": "float16", "bf16": "bfloat16"}
    return {name: dense.get(form, form) for name, form in recipe.forms(matrices).items()}


def open_reader(source: Source) -> Reader:
    """The source's reader. Raises DamagedWeights or UnsupportedModel."""
    if source.kind == "gguf":
        from bunny_engine.weights_gguf import GgufModel

        return GgufModel(source.path)
    from bunny_engine.weights_hf import HfModel

    return HfModel(source.path)


def _known_matrices(source: Source, folder: Path) -> list[str]:
    """The names of the model's matrices, from a conversion that is there or from the source."""
    path = folder / "config.json"
    try:
        return ModelConfig(**json.loads(path.read_text("utf-8"))).matrices()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError, TypeError, WeightsError) as error:
        raise DamagedWeights(f"{path} is damaged ({error}); delete it and it is made anew") from None
    reader = open_reader(source)
    try:
        config = reader.config
        with written(path) as part:
            part.write_text(json.dumps(config.to_json()), "utf-8")
        return config.matrices()
    finally:
        reader.close()


def _convert(source: Source, forms: dict[str, str], path: Path) -> None:
    reader = open_reader(source)
    try:
        _check_shapes(reader, source)
        tensors = converted(reader, source, forms)
        about = {
            "config": json.dumps(reader.config.to_json()),
            "forms": json.dumps(forms),
            "created": str(int(time.time())),
        }
    finally:
        reader.close()
    with written(path) as part:
        save_file(tensors, part, metadata=about)


def _mapped(source: Source, forms: dict[str, str], path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    config = ModelConfig(**json.loads(about["config"]))
    shapes = config.shapes()
    expected: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    matrices: dict[str, Stored] = {}
    for name, shape in shapes.items():
        form = forms.get(name, "float32")
        layout = {"": (shape, _DENSE[form])} if form in _DENSE else Stored.layout(form, (shape[0], shape[1]))
        expected |= {_joined(name, part): what for part, what in layout.items()}
    found = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    if found != expected or json.loads(about["forms"]) != forms:
        raise DamagedWeights("its tensors are not those of its configuration")
    for name, form in forms.items():
        parts = [""] if form in _DENSE else list(Stored.layout(form, (1, 1)))
        named = {part: tensors.pop(_joined(name, part)) for part in parts}
        rows, columns = shapes[name]
        matrices[name] = Stored("dense" if form in _DENSE else form, named, (rows, columns))
    return Checkpoint(source.name, config, tensors, matrices, forms, int(about["created"]), path.parent)


def _joined(name: str, part: str) -> str:
    return f"{name}:{part}" if part else name


def converted(reader: Reader, source: Source, forms: dict[str, str]) -> dict[str, Tensor]:
    """Every tensor of `ModelConfig.shapes`, read, checked and put into its form. Raises DamagedWeights."""
    found = reader.frequencies()
    for ours, parts in reader.config.sources().items():
        read = [_plausible(reader.read(name), name, source) for name, _ in parts]
        whole = read[0].contiguous() if len(read) == 1 else torch.cat(read)
        form = forms.get(ours, "float32")
        if form in _DENSE:
            found[ours] = whole.to(_DENSE[form])
        else:
            found |= {_joined(ours, part): t for part, t in Stored.quantised(whole, form).parts.items()}
    return found


def _check_shapes(reader: Reader, source: Source) -> None:
    """Every tensor's shape against the configuration, before a byte of it is read."""
    for parts in reader.config.sources().values():
        for name, shape in parts:
            found = reader.shape(name)
            if found is None:
                raise DamagedWeights(f"{source.path}: tensor {name!r} is missing")
            if found != shape:
                raise DamagedWeights(
                    f"{source.path}: tensor {name!r} has shape {found}; its metadata says {shape}"
                )


def _plausible(tensor: Tensor, name: str, source: Source) -> Tensor:
    """The tensor, if its numbers can be weights: all finite, no row that drowns every other one."""
    rows = tensor.reshape(tensor.shape[0], -1) if tensor.dim() > 1 else tensor.reshape(1, -1)
    size = torch.linalg.vector_norm(rows, dim=1) / rows.shape[1] ** 0.5  # root mean square of each row
    if not bool(size.isfinite().all()):
        raise DamagedWeights(f"{source.path}: tensor {name!r} holds numbers that are not finite")
    largest, usual = float(rows.abs().max()), float(size.median())
    if largest > 1e4 or (tensor.dim() > 1 and largest > 1e3 * max(usual, 1e-6)):
        raise DamagedWeights(
            f"{source.path}: tensor {name!r} holds {largest:.3g} among values near {usual:.3g}"
        )
    return tensor
