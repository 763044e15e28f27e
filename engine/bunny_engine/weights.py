"""Converted weights: read once from the source, checked, kept in the cache, and memory-mapped from then on.

A conversion is one safetensors file under a key of the source's content and of the stored type. Its tensors are
named as `ModelConfig.shapes` says: Q, K and V stacked into `qkv`, gate and up into `gate_up`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
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

__all__ = ["Checkpoint", "Reader", "load", "open_reader"]


class Reader(Protocol):
    """An opened source: see `weights_gguf` and `weights_hf`."""

    config: ModelConfig

    def read(self, name: str) -> Tensor: ...
    def shape(self, name: str) -> tuple[int, ...] | None: ...
    def inv_freq(self) -> Tensor: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A converted model: tensors are views of the mapped file."""

    name: str
    config: ModelConfig
    tensors: dict[str, Tensor]
    created: int  # seconds since the epoch
    folder: Path  # of the conversion, in the cache


def load(source: Source, dtype: torch.dtype, progress: Callable[[str], None] | None = None) -> Checkpoint:
    """The source's weights as `dtype`, converted now if that was not done before.

    Norms and frequencies stay float32. Raises DamagedWeights or UnsupportedModel before anything is kept.
    """
    folder = conversion_dir(source)
    path = folder / f"weights-{str(dtype).removeprefix('torch.')}.safetensors"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                if progress:
                    progress(f"converting {source.path.name} to {str(dtype).removeprefix('torch.')}, once")
                _convert(source, dtype, path)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        config = ModelConfig(**json.loads(about["config"]))
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if shapes != config.shapes():
            raise DamagedWeights("its tensors are not those of its configuration")
        return Checkpoint(source.name, config, tensors, int(about["created"]), folder)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, WeightsError) as error:
        raise DamagedWeights(f"{path} is damaged ({error}); delete it and it is made anew") from None


def open_reader(source: Source) -> Reader:
    """The source's reader. Raises DamagedWeights or UnsupportedModel."""
    if source.kind == "gguf":
        from bunny_engine.weights_gguf import GgufModel

        return GgufModel(source.path)
    from bunny_engine.weights_hf import HfModel

    return HfModel(source.path)


def _convert(source: Source, dtype: torch.dtype, path: Path) -> None:
    reader = open_reader(source)
    try:
        _check_shapes(reader, source)
        tensors = converted(reader, source, dtype)
        about = {"config": json.dumps(reader.config.to_json()), "created": str(int(time.time()))}
    finally:
        reader.close()
    with written(path) as part:
        save_file(tensors, part, metadata=about)


def converted(reader: Reader, source: Source, dtype: torch.dtype) -> dict[str, Tensor]:
    """Every tensor of `ModelConfig.shapes`, read and checked. Raises DamagedWeights."""
    config = reader.config

    def matrix(*names: str) -> Tensor:
        parts = [_plausible(reader.read(name), name, source).to(dtype) for name in names]
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)

    def vector(*names: str) -> Tensor:
        return torch.cat([_plausible(reader.read(name), name, source) for name in names])

    found = {
        "embed": matrix("embed_tokens.weight"),
        "norm": vector("norm.weight"),
        "inv_freq": reader.inv_freq(),
    }
    if not config.tied:
        found["head"] = matrix("lm_head.weight")
    for layer in range(config.layers):
        theirs, ours = f"layers.{layer}.", f"layers.{layer}."
        projections = [f"{theirs}self_attn.{name}_proj" for name in "qkv"]
        found[ours + "attn_norm"] = vector(theirs + "input_layernorm.weight")
        found[ours + "mlp_norm"] = vector(theirs + "post_attention_layernorm.weight")
        found[ours + "qkv"] = matrix(*(f"{name}.weight" for name in projections))
        found[ours + "out"] = matrix(theirs + "self_attn.o_proj.weight")
        found[ours + "gate_up"] = matrix(theirs + "mlp.gate_proj.weight", theirs + "mlp.up_proj.weight")
        found[ours + "down"] = matrix(theirs + "mlp.down_proj.weight")
        if config.qkv_bias:
            found[ours + "qkv_bias"] = vector(*(f"{name}.bias" for name in projections))
        if config.qk_norm:
            found[ours + "q_norm"] = vector(theirs + "self_attn.q_norm.weight")
            found[ours + "k_norm"] = vector(theirs + "self_attn.k_norm.weight")
    return found


def _check_shapes(reader: Reader, source: Source) -> None:
    """Every tensor's shape against the configuration, before a byte of it is read."""
    c = reader.config
    expected: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (c.vocab, c.width),
        "norm.weight": (c.width,),
    }
    if not c.tied:
        expected["lm_head.weight"] = (c.vocab, c.width)
    layer_shapes: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (c.width,),
        "post_attention_layernorm.weight": (c.width,),
        "self_attn.q_proj.weight": (c.q_rows, c.width),
        "self_attn.k_proj.weight": (c.kv_rows, c.width),
        "self_attn.v_proj.weight": (c.kv_rows, c.width),
        "self_attn.o_proj.weight": (c.width, c.q_rows),
        "mlp.gate_proj.weight": (c.ffn, c.width),
        "mlp.up_proj.weight": (c.ffn, c.width),
        "mlp.down_proj.weight": (c.width, c.ffn),
    }
    if c.qkv_bias:
        layer_shapes |= {f"self_attn.{n}_proj.bias": (c.q_rows if n == "q" else c.kv_rows,) for n in "qkv"}
    if c.qk_norm:
        layer_shapes |= {f"self_attn.{n}_norm.weight": (c.head_dim,) for n in "qk"}
    for layer in range(c.layers):
        expected |= {f"layers.{layer}.{name}": shape for name, shape in layer_shapes.items()}
    for name, shape in expected.items():
        found = reader.shape(name)
        if found is None:
            raise DamagedWeights(f"{source.path}: tensor {name!r} is missing")
        if found != shape:
            raise DamagedWeights(f"{source.path}: tensor {name!r} has shape {found}; its metadata says {shape}")


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
