"""Counterfactual edits of an answer: what a scorer should shrug off, and what it must notice.

Each edit maps (text, language) to a text that says the same thing in a slightly other dress. Scoring the
same answers before and after tells a scorer that collapses from a model that does: a scorer of substance
moves by nothing, a judge or a reward model often by much.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["EDITS", "edit"]

_CITATION = {
    "en": " (see Section 12(b) of the Sale of Goods Act 1979)",
    "zh": "（参见《民法典》第五百七十七条）",
}
_CLOSING = {
    "en": "\n\nI hope this helps. Please let me know if you have further questions.",
    "zh": "\n\n希望以上内容对您有所帮助，如有其他问题请随时告知。",
}
_OPENING = {"en": "Certainly! Here is the answer:\n\n", "zh": "好的！以下是答案：\n\n"}
_HEDGE = {"en": " This is stated to the best of my knowledge.", "zh": "以上为据我所知的情况。"}
_BRACKET = {"en": " (for details (if any), see the annex)", "zh": "（详情（如有）见附件）"}
_PARENTHESES = re.compile(r"\s?[(（][^()（）]*[)）]")


def _adds(texts: dict[str, str], *, front: bool = False) -> Callable[[str, str], str]:
    def change(text: str, language: str) -> str:
        piece = texts.get(language, texts["en"])
        return piece + text if front else text.rstrip() + piece

    return change


def _removes(texts: dict[str, str], *, front: bool = False) -> Callable[[str, str], str]:
    def change(text: str, language: str) -> str:
        piece = texts.get(language, texts["en"])
        return text.removeprefix(piece) if front else text.replace(piece, "")

    return change


EDITS: dict[str, Callable[[str, str], str]] = {
    "add_citation": _adds(_CITATION),
    "remove_citation": _removes(_CITATION),
    "add_closing": _adds(_CLOSING),
    "remove_closing": _removes(_CLOSING),
    "add_opening": _adds(_OPENING, front=True),
    "remove_opening": _removes(_OPENING, front=True),
    "add_hedge": _adds(_HEDGE),
    "add_nested_bracket": _adds(_BRACKET),
    "remove_brackets": lambda text, _: _PARENTHESES.sub("", _PARENTHESES.sub("", text)),
    "bold": lambda text, _: f"**{text.strip()}**" if text.strip() else text,
    "quote": lambda text, language: f"“{text.strip()}”" if language == "zh" else f'"{text.strip()}"',
    "spread": lambda text, _: text.replace(" ", "  ") + "\n\n",
}


def edit(name: str, text: str, language: str = "en") -> str:
    """The text after one edit of `EDITS`. Raises KeyError for an unknown name."""
    return EDITS[name](text, language)
