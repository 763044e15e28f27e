"""Counterfactual edits of an answer that leave its substance alone: what a sound scorer hardly notices."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = [
    "EDITS",
    "add_citation",
    "add_closing",
    "nest_bracket",
    "remove_brackets",
    "remove_citations",
    "remove_closing",
]

_CITATION = re.compile(
    r"\s*\(?(?:§+\s*\d+[a-z]?(?:\([0-9a-z]+\))*|[Ss]ection\s+\d+(?:\.\d+)*|[Aa]rticle\s+\d+(?:\(\d+\))?"
    r"|\d+\s+U\.?S\.?C\.?\s+§?\s*\d+|第[一二三四五六七八九十百零〇\d]+条)\)?"
)
_CLOSING = re.compile(
    r"\s*(?:I hope (?:this|that) helps[.!]?|Let me know if you have (?:any )?(?:further |more )?questions[.!]?"
    r"|Please consult (?:a|your) (?:lawyer|attorney|professional)[^.]*\."
    r"|希望(?:这|以上)?对您有(?:所)?帮助[。！]?)\s*$"
)
_INNER = re.compile(r"\s*[(（\[][^()（）\[\]]*[)）\]]")


def add_citation(text: str) -> str:
    """A statute citation behind the first sentence."""
    end = re.search(r"[.。!?](?=\s|$)|[。]", text)
    place = end.start() if end else len(text)
    return f"{text[:place]} (Section 12){text[place:]}"


def remove_citations(text: str) -> str:
    """Without statute citations."""
    return _CITATION.sub("", text)


def add_closing(text: str) -> str:
    """With a closing formula."""
    return f"{text.rstrip()} I hope this helps."


def remove_closing(text: str) -> str:
    """Without closing formulas."""
    before = None
    while before != text:
        before, text = text, _CLOSING.sub("", text)
    return text


def nest_bracket(text: str) -> str:
    """With a bracket within a bracket at the end of the first sentence."""
    end = re.search(r"[.。!?](?=\s|$)|[。]", text)
    place = end.start() if end else len(text)
    return f"{text[:place]} (as stated (above)){text[place:]}"


def remove_brackets(text: str) -> str:
    """Without bracketed text, innermost first."""
    before = None
    while before != text:
        before, text = text, _INNER.sub("", text)
    return text


EDITS: dict[str, Callable[[str], str]] = {
    "add citation": add_citation,
    "remove citations": remove_citations,
    "add closing": add_closing,
    "remove closing": remove_closing,
    "nest bracket": nest_bracket,
    "remove brackets": remove_brackets,
}
