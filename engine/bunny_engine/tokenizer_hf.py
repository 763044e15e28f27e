"""A Hugging Face folder's tokenizer.json, and the facts in the files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from bunny_engine.errors import DamagedWeights, UnsupportedModel
from bunny_engine.tokenizer import TokenizerFacts
from bunny_engine.weights_hf import read_json

__all__ = ["from_folder"]


def from_folder(folder: Path) -> tuple[str, TokenizerFacts]:
    """The text of tokenizer.json, and the facts. Raises DamagedWeights, UnsupportedModel."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UnsupportedModel(f"{folder}: no tokenizer.json; slow tokenizer formats are not read")
    try:
        backend = Backend.from_file(str(path))
    except Exception as error:  # the binding raises bare Exception
        raise DamagedWeights(f"{path}: not a tokenizer file ({error})") from None
    stated = {
        name: read_json(folder / name)
        for name in ("config.json", "tokenizer_config.json", "generation_config.json")
        if (folder / name).is_file()
    }
    about = stated.get("tokenizer_config.json", {})
    variables = {
        name: text
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if (text := _token_text(about.get(name))) is not None
    }
    ends: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        value = stated.get(name, {}).get("eos_token_id")
        ends |= {end for end in (value if isinstance(value, list) else [value]) if type(end) is int}
    if (end := backend.token_to_id(variables.get("eos_token", ""))) is not None:
        ends.add(end)
    # A post-processor that starts every prompt with one token shows itself on the empty text.
    start = backend.encode("", add_special_tokens=True).ids
    bos = start[0] if len(start) == 1 and start[0] not in ends else None
    if about.get("add_bos_token") is True and bos is None:
        bos = backend.token_to_id(variables.get("bos_token", ""))
    added = backend.get_added_tokens_decoder().items()
    parts = [getattr(backend, part) for part in ("pre_tokenizer", "decoder")]
    return backend.to_str(), TokenizerFacts(
        eos_ids=sorted(ends),
        control={token.content: index for index, token in added if token.special},
        byte_level="ByteLevel" in repr(parts),
        bos_id=bos,
        chat_template=_chat_template(folder, about),
        variables=variables,
    )


def _token_text(value: Any) -> str | None:
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _chat_template(folder: Path, about: dict[str, Any]) -> str | None:
    if (path := folder / "chat_template.jinja").is_file():
        return path.read_text("utf-8")
    template = about.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None
