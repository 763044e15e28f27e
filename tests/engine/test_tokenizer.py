"""Text to ids and back, from GGUF metadata and from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_models
from bunny_engine.errors import DamagedWeights
from bunny_engine.fetch import Source
from bunny_engine.tokenizer import TextTokenizer, load_tokenizer
from bunny_engine.tokenizer_spm import spm_backend
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


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A small SentencePiece model, byte-pair merges with bytes to fall back on."""
    import sentencepiece

    root = tmp_path_factory.mktemp("spm")
    text = root / "text.txt"
    words = ["the", "river", "rose", "spring", "and", "mill", "turned", "night", "hello", "world", "worldly"]
    text.write_text("\n".join(" ".join(words[at % len(words) :]) for at in range(60)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(root / "m"),
        model_type="bpe",
        vocab_size=340,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(root / "m.model"))


@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=40),
        st.lists(
            st.sampled_from(["the", " river", "hello", "  ", "world", "ly", "é", "\n", "東"]), max_size=12
        ).map("".join),
    )
)
def test_sentencepiece_merges_give_sentencepieces_ids(pieces: Any, text: str) -> None:
    """From pieces and scores alone, as GGUF keeps them: the ids that SentencePiece itself gives."""
    text = text.replace("\x00", "").replace("\u2581", "")
    count = pieces.vocab_size()
    kinds = [
        6 if pieces.is_byte(i) else 3 if pieces.is_control(i) else 2 if pieces.is_unknown(i) else 1
        for i in range(count)
    ]
    names, scores = [pieces.id_to_piece(i) for i in range(count)], [pieces.get_score(i) for i in range(count)]
    backend = spm_backend(Path("m"), names, scores, kinds, prefix=True, unknown="<unk>")
    if text:  # SentencePiece puts no space before nothing
        assert backend.encode(text, add_special_tokens=False).ids == pieces.encode(text)


def test_a_sentencepiece_vocabulary_that_contradicts_itself_is_told() -> None:
    """Scores or types that are missing, a piece twice, no unknown token: DamagedWeights."""
    for tokens, scores, kinds in (
        (["<unk>", "a"], [0.0], [2, 1]),
        (["<unk>", "a", "a"], [0.0] * 3, [2, 1, 1]),
        (["a"], [0.0], [1]),
        (["<unk>", "a" * 600], [0.0, 0.0], [2, 1]),
    ):
        with pytest.raises(DamagedWeights):
            spm_backend(Path("m"), tokens, scores, kinds, prefix=False, unknown="<unk>")
