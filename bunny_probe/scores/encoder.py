"""A sentence encoder of the BERT family in numpy: reads a Hugging Face folder, needs no torch.

The forward pass is BERT's (Devlin et al. 2018: post-norm blocks, exact GELU), with mean pooling over the
tokens and unit length (Reimers and Gurevych 2019). Weights are read from `model.safetensors` in place.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bunny_probe.errors import UsageError

__all__ = ["Encoder", "read_safetensors"]

Array = NDArray[np.float32]
_LARGEST_HEADER = 100 << 20
_TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def read_safetensors(path: Path) -> Mapping[str, NDArray[Any]]:
    """The tensors of a safetensors file, mapped and not copied. Raises `UsageError` for a damaged file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_LARGEST_HEADER, size - 8):
                raise ValueError("the header is longer than the file")
            header = json.loads(file.read(length))
        data = np.memmap(path, np.uint8, "r", offset=8 + length)
        tensors = {}
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] in _TYPES:
                start, end = entry["data_offsets"]
                if not 0 <= start <= end <= len(data):
                    raise ValueError(f"{name} lies outside the file")
                tensors[name] = data[start:end].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UsageError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors


class Encoder:
    """Sentence vectors of unit length, shape (texts, hidden size), float32.

    `folder` holds config.json, model.safetensors and tokenizer.json. Texts are cut at `limit` tokens.
    Raises `UsageError` when a file is missing, damaged, or not of a BERT model.
    """

    def __init__(self, folder: str | Path, *, limit: int = 256) -> None:
        self.folder = Path(folder)
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            if not (self.folder / name).is_file():
                raise UsageError(f"the encoder folder {self.folder} lacks {name}")
        self.config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        if self.config.get("model_type") != "bert" or self.config.get("hidden_act") != "gelu":
            kind = self.config.get("model_type")
            raise UsageError(f"{self.folder} holds a model of type {kind!r}; only BERT with gelu is read")
        self.limit = min(limit, int(self.config["max_position_embeddings"]))

    def encode(self, texts: Sequence[str]) -> Array:
        """One vector a text. Deterministic; about 5 ms for a short sentence on one core."""
        return np.stack([self._encode(text) for text in texts])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.limit)
        return tokenizer

    @cached_property
    def _weights(self) -> dict[str, Array]:
        tensors = read_safetensors(self.folder / "model.safetensors")
        return {name.removeprefix("bert."): np.asarray(value, np.float32) for name, value in tensors.items()}

    def _encode(self, text: str) -> Array:
        # a megabyte is not tokenised to be cut at 256 tokens: no token is longer than this on the average
        ids = self._tokenizer.encode(text[: self.limit * 64]).ids
        x = self._embed(ids)
        for layer in range(int(self.config["num_hidden_layers"])):
            x = self._block(x, f"encoder.layer.{layer}.")
        mean = x.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), np.float32)

    def _embed(self, ids: Sequence[int]) -> Array:
        weights = self._weights
        x = weights["embeddings.word_embeddings.weight"][list(ids)]
        x = x + weights["embeddings.position_embeddings.weight"][: len(ids)]
        x = x + weights["embeddings.token_type_embeddings.weight"][0]
        return self._norm(x, "embeddings.LayerNorm")

    def _block(self, x: Array, at: str) -> Array:
        from scipy.special import erf

        heads = int(self.config["num_attention_heads"])
        tokens, width = x.shape
        q, k, v = (
            self._linear(x, f"{at}attention.self.{name}").reshape(tokens, heads, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(width // heads)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        attended = self._linear(mixed.transpose(1, 0, 2).reshape(tokens, width), f"{at}attention.output.dense")
        x = self._norm(x + attended, f"{at}attention.output.LayerNorm")
        inner = self._linear(x, f"{at}intermediate.dense")
        inner = np.asarray(0.5 * inner * (1.0 + erf(inner / math.sqrt(2.0))), np.float32)
        return self._norm(x + self._linear(inner, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _linear(self, x: Array, name: str) -> Array:
        return np.asarray(x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"], np.float32)

    def _norm(self, x: Array, name: str) -> Array:
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        scaled = (x - mean) / np.sqrt(variance + self.config["layer_norm_eps"])
        return np.asarray(scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"], np.float32)
