"""Exact counts: words, characters, sentences, lines, paragraphs, occurrences."""

from __future__ import annotations

import re
import unicodedata

from bunny_probe.scores.formats.base import Verdict, checker, lines, within
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import CJK, fold, sentences, words

_HAN = re.compile(f"[{CJK}]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


@checker("word_count", "words; in Chinese and Japanese, characters")
def word_count(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    # "mother-in-law" and "don't" are one word to whoever counts them
    spaced = sum(any(map(str.isalnum, part)) for part in _HAN.sub(" ", text).split())
    count = len(_HAN.findall(text)) + spaced
    return within(count, "words", exactly, at_least, at_most)


@checker("character_count", "characters; `spaces` counts white space too, `punctuation` counts marks")
def character_count(
    text: str,
    *,
    exactly: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    spaces: bool = False,
    punctuation: bool = True,
) -> Verdict:
    kept = [
        char
        for char in text
        if (spaces or not char.isspace()) and (punctuation or unicodedata.category(char)[0] != "P")
    ]
    return within(len(kept), "characters", exactly, at_least, at_most)


@checker("sentence_count", "sentences")
def sentence_count(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    return within(len(sentences(text)), "sentences", exactly, at_least, at_most)


@checker("line_count", "lines that are not blank")
def line_count(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    return within(len(lines(text)), "lines", exactly, at_least, at_most)


@checker("paragraph_count", "paragraphs, parted by blank lines")
def paragraph_count(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    count = len([part for part in _BLANK_LINE.split(text) if part.strip()])
    return within(count, "paragraphs", exactly, at_least, at_most)


@checker("occurrences", "how often a word (or, in Chinese, a string of characters) stands in the text")
def occurrences(
    text: str, *, of: str, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    return within(len(find(fold(text), [of])), f"times {of!r}", exactly, at_least, at_most)


@checker("symbol_count", "how often a symbol stands in the text, to the character")
def symbol_count(
    text: str, *, of: str, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    return within(text.count(of), f"times {of!r}", exactly, at_least, at_most)


@checker("words_per_line", "every line has so many words (Chinese: characters)")
def words_per_line(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    for number, line in enumerate(lines(text), 1):
        verdict = within(len(words(fold(line))), f"words on line {number}", exactly, at_least, at_most)
        if not verdict.holds:
            return verdict
    return Verdict(bool(text), "every line has the wanted number of words" if text else "empty")


@checker("words_per_sentence", "every sentence has so many words (Chinese: characters)")
def words_per_sentence(
    text: str, *, exactly: int | None = None, at_least: int | None = None, at_most: int | None = None
) -> Verdict:
    for number, sentence in enumerate(sentences(text), 1):
        verdict = within(len(words(fold(sentence))), f"words in sentence {number}", exactly, at_least, at_most)
        if not verdict.holds:
            return verdict
    return Verdict(bool(text), "every sentence has the wanted number of words" if text else "empty")


@checker("distinct_words", "no word twice")
def distinct_words(text: str, *, at_least: int = 1) -> Verdict:
    given = words(fold(text))
    seen: set[str] = set()
    for word in given:
        if word in seen:
            return Verdict(False, f"{word!r} stands twice")
        seen.add(word)
    return within(len(given), "words, all different", None, at_least, None)
