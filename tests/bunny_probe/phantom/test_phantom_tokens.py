"""Counts of the phantom's tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.errors import UsageError
from bunny_probe.phantom import FileTokenizer, WordTokenizer, chat_tokens
from bunny_probe.phantom.prefix import PrefixCache, block_hashes

WORDS = WordTokenizer()
TEXTS = st.text(st.sampled_from("ab éß漢字かな한글🙂\n\t  .,-_12'\u0301\U0001f600"), max_size=60)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("The code is KX-44.", ["The", " code", " is", " KX", "-", "4", "4", "."]),
        ("  two", [" ", " two"]),
        ("漢字 and é", ["漢", "字", " and", " é"]),
        ("a\n\nb🙂", ["a", "\n", "\n", "b", "🙂"]),
    ],
)
def test_the_words_tokenizer_can_be_followed_by_hand(text: str, pieces: list[str]):
    """Letters with one space before them are a token, everything else is one by itself."""
    assert [piece.text for piece in WORDS.pieces(text)] == pieces
    assert WORDS.count(text) == len(pieces)


@given(TEXTS)
def test_pieces_put_together_are_the_text_and_counts_agree(text: str):
    """Nothing is lost, and count, starts and pieces tell the same number."""
    pieces = WORDS.pieces(text)
    assert "".join(piece.text for piece in pieces) == text
    assert b"".join(piece.raw for piece in pieces) == text.encode()
    assert WORDS.count(text) == len(pieces) == len(WORDS.starts(text))


@given(TEXTS, TEXTS)
def test_counts_add_up_at_a_space(left: str, right: str):
    """count(a + " " + b) = count(a) + count(" " + b): what exact prompt building rests on."""
    assert WORDS.count(left + " " + right) == WORDS.count(left) + WORDS.count(" " + right)


def test_a_chat_costs_two_marks_a_message_and_one_for_the_answer():
    """The template's share is known exactly."""
    chat = [("system", "Be brief."), ("user", "Hello there")]
    assert chat_tokens(WORDS, chat) == 2 + 3 + 2 + 2 + 1
    assert chat_tokens(WORDS, chat, generation_prompt=False) == 9


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> FileTokenizer:
    """A byte-level BPE tokenizer without merges: every byte is a token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return FileTokenizer(path)


@given(TEXTS)
def test_a_tokenizer_file_gives_the_true_bytes_of_each_token(byte_level: FileTokenizer, text: str):
    """Parts of characters have their own bytes and no text; text and bytes together are whole."""
    pieces = byte_level.pieces(text)
    assert b"".join(piece.raw for piece in pieces) == text.encode()
    assert "".join(piece.text for piece in pieces) == text
    assert byte_level.count(text) == len(text.encode())


def test_a_part_of_a_character_is_shown_as_its_bytes(byte_level: FileTokenizer):
    """As OpenAI's server names such a token."""
    first, *_, last = byte_level.pieces("🙂")
    assert (first.text, first.raw, first.shown) == ("", b"\xf0", "bytes:\\xf0")
    assert last.text == "🙂"


def test_a_missing_or_broken_tokenizer_file_is_told(tmp_path: Path):
    """The message names the file."""
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    for path in (broken, tmp_path / "none.json"):
        with pytest.raises(UsageError, match=path.name):
            FileTokenizer(path)


@given(st.text("ab .", max_size=80), st.text("ab .", max_size=80), st.integers(1, 5))
def test_prefix_blocks_are_equal_exactly_as_far_as_the_texts_are(left: str, right: str, block: int):
    """The number of shared blocks is that of whole blocks of equal leading tokens."""
    a, b = ([piece.text for piece in WORDS.pieces(text)] for text in (left, right))
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    hashes = [block_hashes(WORDS, text, block) for text in (left, right)]
    assert [len(h) for h in hashes] == [len(a) // block, len(b) // block]
    shared = sum(x == y for x, y in zip(*hashes, strict=False))
    assert shared == same // block
    cache = PrefixCache(10_000, block)
    assert cache.use(hashes[0]) == 0
    assert cache.use(hashes[1]) == shared * block


def test_a_full_prefix_cache_forgets_the_oldest_and_keeps_prefixes_longest():
    """What stands on a prefix goes before the prefix does."""
    cache = PrefixCache(4, 1)
    cache.use([b"a", b"b", b"c"])
    cache.use([b"x", b"y"])
    assert cache.use([b"a", b"b"]) == 2
    assert cache.use([b"z"]) == 0
    cache.clear()
    assert cache.use([b"a"]) == 0
