"""Reading an answer's text: one folding that all scorers share, words, sentences, and what was not the answer.

`fold` makes equal what a person reads as equal: Unicode compatibility forms and full-width characters
(NFKC), case, invisible and direction characters, the many dashes and quotes. Everything here is linear in
the text: an answer of megabytes is judged in seconds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = ["CJK", "LETTER", "answer_text", "cut_new_turn", "fold", "sentences", "squeeze", "words"]

# Character classes to be put inside [...]: scripts written without spaces, where a character is a word.
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
LETTER = rf"[^\W_{CJK}]"  # a letter or digit of a script written with spaces

_WORD = re.compile(rf"[{CJK}]|{LETTER}+")
_SPLIT_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")
_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u02bc": "'"})
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_NOT_WORD = re.compile(r"[\W_]+")
_BULLET = re.compile(r"(?m)^[ \t]*(?:\d{1,3}[.)]|[-*•])[ \t]+")
_SENTENCE_END = re.compile(
    r"(?<!\bDr)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bNo)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)"
    r"(?<![.!?…])[.!?…]++[\"')\]*_]*+(?=\s|$)"
    r"|[。!?！？]++[\"'」』”’)）*_]*+|\n\s*\n"
)
_THINK_END = re.compile(r"</think(?:ing)?>\s*", re.IGNORECASE)
_NEW_TURN = re.compile(
    r"(?im)^[ \t#*>]*(?:<\|im_start\|>|question|q|user|human|query|next question|问题|问|用户|提问)[ \t*]*[::>]"
    r"|<\|im_(?:start|end)\|>"
)
_MOST_MARKS = 30  # combining marks in a row that are kept: the Stream-Safe Text Format of UAX #15


def answer_text(text: str) -> str:
    """The answer without a reasoning block that a server left inside the content."""
    ends = list(_THINK_END.finditer(text)) if "</think" in text.casefold() else []
    return text[ends[-1].end() :] if ends else text


def fold(text: str) -> str:
    """The text as a reader hears it: NFKC, case-folded, no invisible characters, one kind of dash and quote."""
    if "\\u" in text:  # JSON escapes of a model that writes ASCII JSON
        text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    if text.isascii():
        return text.casefold()
    text = _mark_flood().sub(lambda match: match[0][:_MOST_MARKS], text)
    text = unicodedata.normalize("NFKC", text).casefold()
    text = unicodedata.normalize("NFKC", text)  # case-folding may leave decomposed letters behind
    text = _invisible().sub("", text)
    return _SPLIT_DASHES.sub("-", text).translate(_QUOTES)


@cache
def _mark_flood() -> re.Pattern[str]:
    """Longer runs of combining marks than any script writes: ordering them takes quadratic time."""
    marks = "".join(chr(code) for code in range(0x20000) if unicodedata.combining(chr(code)))
    return re.compile(f"[{re.escape(marks)}]{{{_MOST_MARKS + 1},}}")


@cache
def _invisible() -> re.Pattern[str]:
    """Format characters (zero width, bidirectional controls, soft hyphen, tags) and lone surrogates."""
    codes = [code for code in range(0xE1000) if unicodedata.category(chr(code)) in ("Cf", "Cs")]
    return re.compile(f"[{re.escape(''.join(map(chr, codes)))}]")


def words(folded: str) -> list[str]:
    """Words of a folded text; each character of an unspaced script is one."""
    return _WORD.findall(folded)


def squeeze(folded: str) -> str:
    """Only the letters and digits of a folded text."""
    return _NOT_WORD.sub("", folded)


def sentences(text: str) -> list[str]:
    """Sentences of a text, by end punctuation and blank lines; none of them blank."""
    text = _BULLET.sub("", text)  # "1." is no sentence
    parts, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        parts.append(text[start : match.end()])
        start = match.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if _WORD.search(part)]


def cut_new_turn(text: str, said_before: int) -> str:
    """The text up to where the model begins to invent the next question, when that comes after `said_before`.

    Small models go on after their answer with a question and answer of their own making.
    """
    match = _NEW_TURN.search(text, said_before)
    return text[: match.start()] if match else text
