"""Bytes to text: whole characters only, and never the start of a stop string."""

from __future__ import annotations

import pytest
from bunny_engine.server.text import Detokenizer, StopMatcher, Vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import MARKERS, BpeTokenizer


def pieces(text: str | bytes, cuts: list[int]) -> list[str | bytes]:
    marks = sorted({min(cut, len(text)) for cut in cuts})
    return [text[a:b] for a, b in zip([0, *marks], [*marks, len(text)], strict=True)]


@settings(deadline=None)
@given(st.text(), st.lists(st.integers(0, 60)))
def test_any_cut_of_the_bytes_gives_the_text(text: str, cuts: list[int]) -> None:
    """Valid UTF-8 comes out whole, wherever the tokens cut it, and never as U+FFFD."""
    raw = text.encode()
    detokenizer = Detokenizer()
    shown = [detokenizer.feed(piece) for piece in pieces(raw, cuts)]
    assert "".join(shown) == text
    assert detokenizer.characters == len(text)
    assert all(("�" in piece) <= ("�" in text) for piece in shown)


@settings(deadline=None)
@given(st.binary(), st.lists(st.integers(0, 60)))
def test_hostile_bytes_do_not_depend_on_the_cut(raw: bytes, cuts: list[int]) -> None:
    """Bytes that are not UTF-8 show as U+FFFD, the same in one piece or in many; only an open end waits."""
    one, many = Detokenizer(), Detokenizer()
    shown = one.feed(raw)
    assert shown == "".join(many.feed(piece) for piece in pieces(raw, cuts))
    assert raw.decode(errors="replace") in (shown, shown + "�")


def test_half_a_character_waits() -> None:
    """The first two bytes of a Chinese character show nothing; the third shows it."""
    detokenizer = Detokenizer()
    assert [detokenizer.feed(bytes([byte])) for byte in "长".encode()] == ["", "", "长"]


def first_end(text: str, stops: list[str]) -> str:
    """The specification by brute force: cut before the stop that completes at the earliest character."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return text[: min(starts)]
    return text


@settings(deadline=None)
@given(
    st.text(alphabet="abc", max_size=24),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(0, 24)),
)
def test_a_stop_string_is_found_whatever_the_pieces(text: str, stops: list[str], cuts: list[int]) -> None:
    """Any cut gives the text before the stop string that completes first, and none of it is shown early."""
    matcher = StopMatcher(stops)
    shown = ""
    expected = first_end(text, stops)
    for piece in pieces(text, cuts):
        shown += matcher.feed(piece)
        assert expected.startswith(shown)
    shown += matcher.flush()
    assert shown == expected
    assert (matcher.hit is not None) == (expected != text)


@settings(deadline=None)
@given(st.text(alphabet="abXY", max_size=24), st.lists(st.integers(0, 24)))
def test_only_a_suffix_that_begins_a_stop_string_is_held(text: str, cuts: list[int]) -> None:
    """What cannot become a stop string is shown at once."""
    stops = ["XYX", "YY"]
    matcher = StopMatcher(stops)
    seen = shown = ""
    for piece in pieces(text, cuts):
        seen += piece
        shown += matcher.feed(piece)
        if matcher.hit is None:
            held = seen[len(shown) :]
            assert held == "" or any(stop.startswith(held) for stop in stops)


def test_names_tell_every_token_apart() -> None:
    """Two tokens with different bytes never share a name, so no alternative hides another."""
    tokenizer = BpeTokenizer()
    vocabulary = Vocabulary(tokenizer, tokenizer.size + 8)
    names = [vocabulary.name_of(token_id) for token_id in range(tokenizer.size + 8)]
    assert len(set(names)) == len(names)
    assert set(MARKERS) <= set(names)
    assert not any("�" in name for name in names)


def test_padded_ids_have_a_name_and_no_bytes() -> None:
    """An embedding wider than the tokenizer has ids that stand for nothing; asking for them is no fault."""
    tokenizer = BpeTokenizer()
    vocabulary = Vocabulary(tokenizer, tokenizer.size + 8)
    assert vocabulary.bytes_of(tokenizer.size + 3) == b""
    assert vocabulary.name_of(tokenizer.size + 3) == f"<token {tokenizer.size + 3}>"


@pytest.mark.parametrize("marker", MARKERS)
def test_control_tokens_have_no_bytes(marker: str) -> None:
    """A control token is never text."""
    tokenizer = BpeTokenizer()
    vocabulary = Vocabulary(tokenizer, tokenizer.size)
    assert vocabulary.bytes_of(tokenizer.special_tokens[marker]) == b""
    assert vocabulary.marker(tokenizer.special_tokens[marker]) == marker


def test_the_longest_token_bounds_the_count() -> None:
    """No text has fewer tokens than its bytes over the longest token."""
    tokenizer = BpeTokenizer()
    longest = Vocabulary(tokenizer, tokenizer.size).longest()
    assert longest == max(
        max(len(tokenizer.token_bytes(token_id)) for token_id in range(tokenizer.size)), max(map(len, MARKERS))
    )
