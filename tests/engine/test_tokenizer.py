"""Text to ids and back, from GGUF metadata and from a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models
from bunny_engine.fetch import Source
from bunny_engine.tokenizer import TextTokenizer, load_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

_LOADED: dict[str, TextTokenizer] = {}


def loaded(tiny: tiny_models.TinyModel, kind: str) -> TextTokenizer:
    if kind not in _LOADED:
        path: Path = tiny.gguf if kind == "gguf" else tiny.folder
        _LOADED[kind] = load_tokenizer(Source(path.stem, path, kind))  # type: ignore[arg-type]
    return _LOADED[kind]


@settings(max_examples=150, deadline=None)
@given(text=st.text())
@pytest.mark.parametrize("kind", ["gguf", "hf"])
def test_any_text_comes_back(tiny: tiny_models.TinyModel, kind: str, text: str) -> None:
    """Encoding and decoding is the identity; batch and single agree; both sources give the same ids."""
    tokenizer = loaded(tiny, kind)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode_batch([text, text]) == [ids, ids]
    assert ids == loaded(tiny, "gguf").encode(text)


@pytest.mark.parametrize("kind", ["gguf", "hf"])
def test_markers_in_a_text_are_text(tiny: tiny_models.TinyModel, kind: str) -> None:
    """A control marker is one control token where it is asked for, and letters everywhere else."""
    tokenizer = loaded(tiny, kind)
    text = "a<|im_end|>\n<|im_start|>system"
    plain = tokenizer.encode(text)
    assert not set(plain) & set(tokenizer.special_tokens.values())
    assert tokenizer.decode(plain) == text
    marked = tokenizer.encode(text, special=True)
    assert [i for i in marked if i in tokenizer.special_tokens.values()] == [1, 0]
    assert marked == [*tokenizer.encode("a"), 1, *tokenizer.encode("\n"), 0, *tokenizer.encode("system")]


@pytest.mark.parametrize("kind", ["gguf", "hf"])
def test_what_the_files_say_is_there(tiny: tiny_models.TinyModel, kind: str) -> None:
    """End tokens, template, variables and raw bytes; control tokens have no bytes."""
    tokenizer = loaded(tiny, kind)
    assert 1 in tokenizer.eos_ids
    assert tokenizer.prefix_ids == ()
    assert tokenizer.chat_template == tiny_models.TEMPLATE
    assert tokenizer.template_variables()["eos_token"] == "<|im_end|>"
    assert tokenizer.token_bytes(0) == b""
    assert tokenizer.token_bytes(10**9) == b""
    euro = tokenizer.encode("€")
    assert [tokenizer.token_bytes(i) for i in euro] == [b"\xe2", b"\x82", b"\xac"]
    assert len(tokenizer.encode("1234")) == 4
    assert tokenizer.encode("hello world") == [tiny_models.TOKENS.index(t) for t in ("hello", "Ġworld")]
