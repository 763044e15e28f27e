"""Faults that change what is in the stream: other answers, other events, events that never come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.edits import EDITS, after
from bunny_probe.phantom.faults import Fault
from bunny_probe.phantom.reply import Choice, Reply, Token
from bunny_probe.phantom.steps import Dialect, Step
from bunny_probe.phantom.tokens import Piece, Tokenizer
from bunny_probe.phantom.words import filler

__all__ = ["WITHOUT_STREAM", "Ending", "spoil_choice", "spoil_steps"]

WIDE = " é漢🙂"  # characters of 2, 3 and 4 bytes
_SOME_REASONING = 6
WITHOUT_STREAM = frozenset(
    {"stream-error", "stream-error-event", "malformed", "wrong-shape", "huge", "usage-absent", "usage-zero"}
    | {"usage-null", "silence", "endless", "endless-comments", "endless-line"}
    | {"cut", "cut-fin", "cut-reset", "cut-in-event"}
)
"""Faults of a stream that mean something for a body that is not one, too."""


@dataclass(slots=True)
class Ending:
    """How a body ends, after its last event."""

    how: Literal["whole", "fin", "reset", "hang", "endless", "endless-comments", "endless-line"] = "whole"
    number: float = 0.0  # seconds between, or bytes a write
    half_event: bytes = b""  # sent just before


def spoil_choice(
    choice: Choice, faults: Sequence[Fault], tokenizer: Tokenizer, key: tuple[object, ...]
) -> Choice:
    """The choice under the faults of level `reply`."""
    for fault in faults:
        match fault.name:
            case "empty":
                choice = replace(choice, tokens=(), reasoning=(), refusal=None, finish="stop", stop_string=None)
            case "null-content" | "reasoning-only":
                thought = choice.reasoning or filler((*key, "thought"), _SOME_REASONING)
                finish: Literal["stop", "length"] = "stop" if fault.name == "null-content" else "length"
                choice = replace(
                    choice, tokens=(), reasoning=thought, refusal=None, finish=finish, stop_string=None
                )
            case "length":
                kept = choice.tokens[: max(1, int(fault.number))]
                choice = replace(choice, tokens=kept, finish="length", stop_string=None)
            case "content-filter":
                kept = choice.tokens[: int(fault.number)]
                choice = replace(choice, tokens=kept, finish="content_filter", stop_string=None)
            case "refusal":
                choice = replace(
                    choice, tokens=(), finish="refusal", refusal="I can't help with that.", kind="refusal"
                )
            case "reasoning":
                choice = replace(choice, reasoning=filler((*key, "thought"), int(fault.number)))
            case "wide" | "byte-split":
                likely = choice.tokens[-1].logprob if choice.tokens else -0.1
                top = choice.tokens[-1].top if choice.tokens else ()
                wide = tuple(
                    Token(piece, likely, ((piece.shown, top[0][1]), *top[1:]) if top else ())
                    for piece in _wide(tokenizer)
                )
                choice = replace(choice, tokens=(*choice.tokens, *wide))
    return choice


def _wide(tokenizer: Tokenizer) -> list[Piece]:
    """The wide characters, the last one over two tokens, of which only the second has text."""
    *whole, last = tokenizer.pieces(WIDE)
    if len(last.raw) < 2:
        return [*whole, last]
    half = len(last.raw) // 2
    return [*whole, Piece("", last.id ^ 1, last.raw[:half]), Piece(last.text, last.id, last.raw[half:])]


def spoil_steps(
    steps: list[Step], faults: Sequence[Fault], ask: Ask, reply: Reply, dialect: Dialect
) -> tuple[list[Step], Ending]:
    """The stream under the faults of levels `stream` and `connection`, and how its body ends."""
    ending = Ending()
    for fault in faults:
        if fault.name in EDITS:
            steps = EDITS[fault.name](steps, fault, ask, reply, dialect)
        elif fault.name in _ENDINGS:
            steps, ending = _end(steps, fault)
    return steps, ending


_ENDINGS = {
    "cut": "whole",
    "cut-fin": "fin",
    "cut-reset": "reset",
    "cut-in-event": "fin",
    "silence": "hang",
    "endless": "endless",
    "endless-comments": "endless-comments",
    "endless-line": "endless-line",
}


def _end(steps: list[Step], fault: Fault) -> tuple[list[Step], Ending]:
    how: Any = _ENDINGS[fault.name]
    tokens = 1.0 if how.startswith("endless") else fault.number
    at = after(steps, int(tokens))
    ending = Ending(how, fault.number)
    if fault.name == "cut-in-event":
        ending.half_event = b'data: {"id":"phantom-cut","choices":[{"index":0,"del'
    return steps[:at], ending
