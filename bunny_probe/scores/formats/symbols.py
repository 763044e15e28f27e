"""Which characters and words may, must and must not stand in the text, and where."""

from __future__ import annotations

import re
import unicodedata

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.scores.formats.base import Verdict, checker, lines
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import CJK, fold, sentences, words

_DIGIT = re.compile(r"\d")
_LATIN = re.compile(r"[A-Za-z]")
_HAN = re.compile(f"[{CJK}]")
_ASCII_MARK = re.compile(r"[!-/:-@\[-`{-~]")
_EMOJI = re.compile("[\U0001f000-\U0001faff\u2600-\u27bf\u2b00-\u2bff]")


@checker("forbidden_characters", "none of these characters, case aside with `fold_case`")
def forbidden_characters(text: str, *, characters: str, fold_case: bool = True) -> Verdict:
    seen = text.casefold() if fold_case else text
    bad = sorted({char for char in (characters.casefold() if fold_case else characters) if char in seen})
    if bad:
        return Verdict(False, f"holds {' '.join(bad)!r}")
    return Verdict(bool(text), "holds none of them" if text else "empty")


@checker("forbidden_words", "none of these words")
def forbidden_words(text: str, *, forbidden: list[str]) -> Verdict:
    found = sorted({forbidden[mention.value] for mention in find(fold(text), forbidden)})
    if found:
        return Verdict(False, f"says {', '.join(found)!r}")
    return Verdict(bool(text), "says none of them" if text else "empty")


@checker("required_words", "all of these words, whatever their order")
def required_words(text: str, *, required: list[str]) -> Verdict:
    found = {required[mention.value] for mention in find(fold(text), required)}
    missing = [word for word in required if word not in found]
    return Verdict(not missing, f"lacks {', '.join(missing)}" if missing else "says all of them")


@checker("starts_with", "the first words (or characters) of the answer, to the character with `exact`")
def starts_with(text: str, *, opening: str, exact: bool = False) -> Verdict:
    holds = text.startswith(opening) if exact else fold(text).startswith(fold(opening))
    return Verdict(holds, f"begins {text[: len(opening) + 8]!r}")


@checker("ends_with", "the last words (or characters) of the answer, to the character with `exact`")
def ends_with(text: str, *, ending: str, exact: bool = False) -> Verdict:
    if exact:
        holds = text.endswith(ending)
    else:
        marks = " \t\n.!。!\"'*"
        holds = fold(text).rstrip(marks).endswith(fold(ending).rstrip(marks))
    return Verdict(holds and len(text) > len(ending), f"ends {text[-len(ending) - 8 :]!r}")


@checker("same_ends", "the answer begins and ends with the same word")
def same_ends(text: str) -> Verdict:
    given = words(fold(text))
    holds = len(given) > 2 and given[0] == given[-1]
    return Verdict(holds, f"begins {given[0]!r}, ends {given[-1]!r}" if given else "empty")


@checker("each_line", "every line begins and ends with given text")
def each_line(text: str, *, opening: str = "", ending: str = "", items: int | None = None) -> Verdict:
    rows = [row.strip() for row in lines(text)]
    for row in rows:
        if not (row.startswith(opening) and row.endswith(ending) and len(row) > len(opening) + len(ending)):
            return Verdict(False, f"line {row[:40]!r} is not {opening!r} … {ending!r}")
    return Verdict(bool(rows) and items in (None, len(rows)), f"{len(rows)} such lines")


@checker("each_sentence", "every sentence begins with one of these words or ends with this mark")
def each_sentence(text: str, *, opening: str = "", ending: str = "", items: int | None = None) -> Verdict:
    parts = sentences(text)
    for part in parts:
        if not (fold(part).startswith(fold(opening)) and part.rstrip("\"'”’」").endswith(ending)):
            return Verdict(False, f"sentence {part[:40]!r} is not {opening!r} … {ending!r}")
    return Verdict(bool(parts) and items in (None, len(parts)), f"{len(parts)} such sentences")


_SCRIPTS = {
    "no_digits": (_DIGIT, False, "a digit"),
    "no_latin": (_LATIN, False, "a Latin letter"),
    "no_han": (_HAN, False, "a Chinese character"),
    "no_emoji": (_EMOJI, False, "an emoji"),
    "no_ascii_punctuation": (_ASCII_MARK, False, "half-width punctuation"),
    "has_emoji": (_EMOJI, True, "an emoji"),
    "has_digits": (_DIGIT, True, "a digit"),
    "has_han": (_HAN, True, "a Chinese character"),
}


@checker("script", "which scripts may stand in the text: " + ", ".join(_SCRIPTS))
def script(text: str, *, rule: str) -> Verdict:
    if rule not in _SCRIPTS:
        raise UsageError(unknown_choice("script rule", rule, _SCRIPTS))
    pattern, wanted, what = _SCRIPTS[rule]
    match = pattern.search(text)
    if match is None:
        return Verdict(bool(text) and not wanted, f"no {what.removeprefix('a ').removeprefix('an ')}")
    return Verdict(wanted, f"holds {what}: {match[0]!r}")


@checker("no_punctuation", "no punctuation marks at all, apart from `allowed`")
def no_punctuation(text: str, *, allowed: str = "") -> Verdict:
    marks = sorted({char for char in text if unicodedata.category(char)[0] == "P" and char not in allowed})
    if marks:
        return Verdict(False, f"holds {' '.join(marks)}")
    return Verdict(bool(text), "no punctuation" if text else "empty")


_CASES = ("upper", "lower", "title", "sentence", "alternating")


@checker("casing", "letters are all " + ", ".join(_CASES))
def casing(text: str, *, case: str) -> Verdict:
    if case not in _CASES:
        raise UsageError(unknown_choice("casing", case, _CASES))
    letters = [char for char in text if char.isupper() or char.islower()]
    if not letters:
        return Verdict(False, "no letters that have a case")
    given = re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)*", text)
    if case == "upper":
        bad = next((word for word in given if word != word.upper()), None)
    elif case == "lower":
        bad = next((word for word in given if word != word.lower()), None)
    elif case == "title":
        bad = next((word for word in given if not word[0].isupper() or word[1:] != word[1:].lower()), None)
    elif case == "sentence":
        bad = next((part[:20] for part in sentences(text) if not part.lstrip("\"'“‘*(-# ")[:1].isupper()), None)
    else:
        bad = next(
            (word for i, word in enumerate(given) if word != (word.upper() if i % 2 == 0 else word.lower())),
            None,
        )
    return Verdict(bad is None, f"{bad!r} is not {case} case" if bad else f"all {case} case")


_SHAPES = {
    "camel": r"[a-z]+(?:[A-Z][a-z0-9]*)+",
    "pascal": r"(?:[A-Z][a-z0-9]+){2,}",
    "snake": r"[a-z]+(?:_[a-z0-9]+)+",
    "kebab": r"[a-z]+(?:-[a-z0-9]+)+",
    "constant": r"[A-Z]+(?:_[A-Z0-9]+)+",
}


@checker("identifier", "the answer is one identifier in a stated style: " + ", ".join(_SHAPES))
def identifier(text: str, *, style: str) -> Verdict:
    if style not in _SHAPES:
        raise UsageError(unknown_choice("identifier style", style, _SHAPES))
    bare = text.strip("`'\". ")
    return Verdict(re.fullmatch(_SHAPES[style], bare[:200]) is not None, f"{bare[:40]!r} against {style} case")
