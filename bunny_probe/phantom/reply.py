"""Composes the answer to a request: what it says, token by token, and how sure each token is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.behaviour import Behaviour
from bunny_probe.phantom.decide import Answer, decide, point_of
from bunny_probe.phantom.distribution import Geometric, with_entropy
from bunny_probe.phantom.draws import digest, uniform
from bunny_probe.phantom.tokens import Piece, Tokenizer
from bunny_probe.phantom.truth import Truth
from bunny_probe.phantom.words import filler, others, word

__all__ = ["Choice", "Prompt", "Reply", "Token", "Usage", "compose", "echoed", "weigh"]

Finish = Literal["stop", "length", "content_filter", "refusal"]


@dataclass(frozen=True, slots=True)
class Token:
    piece: Piece
    logprob: float | None  # None: the first token of an echoed prompt, which nothing foretells
    top: tuple[tuple[str, float], ...]  # the likeliest tokens with their log-probabilities, best first


@dataclass(frozen=True, slots=True)
class Choice:
    tokens: tuple[Token, ...]
    finish: Finish | None
    reasoning: tuple[str, ...] = ()
    refusal: str | None = None
    stop_string: str | None = None
    echoed: tuple[Token, ...] = ()  # the prompt's own tokens, when asked back with log-probabilities
    echoed_text: str = ""
    kind: str = "free"  # what was decided: hit, wrong_anchor, abstain, miss, refusal, free

    @property
    def text(self) -> str:
        return "".join(token.piece.text for token in self.tokens)

    @property
    def spent(self) -> int:
        """Tokens that were generated for it."""
        return len(self.tokens) + len(self.reasoning)


@dataclass(frozen=True, slots=True)
class Usage:
    prompt: int
    completion: int
    cached: int
    reasoning: int
    cost: float  # US dollars by the behaviour's price


@dataclass(frozen=True, slots=True)
class Prompt:
    """What was counted and found out about the prompt."""

    hash: str
    tokens: int  # as usage tells them; less than were sent when truncated
    sent_tokens: int
    cached: int
    truth: Truth
    lost: bool  # the answer stood in the part that was cut off


@dataclass(frozen=True, slots=True)
class Reply:
    id: str
    created: int
    model: str
    fingerprint: str
    choices: tuple[Choice, ...]
    usage: Usage
    show_cost: bool = False


def compose(
    ask: Ask, behaviour: Behaviour, prompt: Prompt, tokenizer: Tokenizer, *, count: int, slow: bool
) -> tuple[Choice, ...]:
    """The n choices. `count` numbers the requests for this prompt, for sampling without a seed."""
    sampled = ask.temperature > 0
    behaviour = behaviour.under(prompt.truth.facts)
    choices = []
    for index in range(ask.n):
        if not sampled:
            draw: tuple[object, ...] = ("greedy",)
        elif ask.seed is not None:
            draw = ("seeded", ask.seed, ask.temperature, index)
        else:
            draw = ("free", count, ask.temperature, index)
        choices.append(_choice(ask, behaviour, prompt, tokenizer, draw, slow))
    return tuple(choices)


def _choice(
    ask: Ask, behaviour: Behaviour, prompt: Prompt, tokenizer: Tokenizer, draw: tuple[object, ...], slow: bool
) -> Choice:
    point = point_of(ask, prompt.truth, prompt.tokens, slow=slow)
    answer = decide(behaviour, prompt.truth, prompt.hash, point, draw, lost=prompt.lost)
    key = (behaviour.seed, prompt.hash, *draw)
    reasoning = filler((*key, "reasoning"), behaviour.reasoning_tokens)
    budget = 1_000_000 if ask.max_tokens is None else ask.max_tokens
    reasoning = reasoning[:budget]
    if answer.kind == "refusal" and behaviour.refusal_style == "field":
        return Choice((), "refusal", reasoning, refusal=answer.text, kind="refusal")
    pieces, stop_string = _pieces(ask, behaviour, answer, tokenizer, key)
    room = budget - len(reasoning)
    cut = len(pieces) > room or (not pieces and room == 0 and bool(reasoning))
    tokens = tuple(weigh(pieces[:room], ask, behaviour, prompt.hash, point, draw))
    return Choice(
        tokens,
        "length" if cut else "stop",
        reasoning,
        stop_string=None if cut else stop_string,
        kind=answer.kind,
    )


def _pieces(
    ask: Ask, behaviour: Behaviour, answer: Answer, tokenizer: Tokenizer, key: tuple[object, ...]
) -> tuple[list[Piece], str | None]:
    text = answer.text
    pieces = tokenizer.pieces(text)
    wanted = behaviour.answer_tokens
    if wanted is not None:
        while len(pieces) < wanted:
            text += " " + " ".join(word(*key, "pad", len(pieces), i) for i in range(wanted - len(pieces)))
            pieces = tokenizer.pieces(text)
        pieces = pieces[:wanted]
        text = "".join(piece.text for piece in pieces)
    found = [(at, stop) for stop in ask.stop if (at := text.find(stop)) >= 0]
    if found:
        at, stop = min(found)
        return tokenizer.pieces(text[:at]), stop
    return pieces, None


def weigh(
    pieces: list[Piece],
    ask: Ask,
    behaviour: Behaviour,
    prompt_hash: str,
    point: dict[str, float],
    draw: tuple[object, ...],
) -> Iterator[Token]:
    """Gives each token its place in a distribution that has the stated entropy.

    Greedy tokens are the likeliest of theirs. Sampled ones fall on a rank drawn from the distribution at the
    request's temperature, so that at T = 1 the mean of −log p is the entropy. Log-probabilities are those
    before temperature.
    """
    for index, piece in enumerate(pieces):
        entropy = behaviour.value("entropy", **point, token=index)
        shape = with_entropy(round(entropy, 9), behaviour.vocabulary)
        u = 0.0
        if ask.temperature > 0:
            u = uniform("rank", behaviour.seed, prompt_hash, *draw, index)
        rank = shape.rank(u, ask.temperature)
        salt = digest("others", behaviour.seed, prompt_hash, index) if ask.top else b""
        yield Token(piece, shape.logprob(rank), _alternatives(piece, shape, rank, ask.top, salt))


def _alternatives(
    piece: Piece, shape: Geometric, rank: int, top: int | None, salt: bytes
) -> tuple[tuple[str, float], ...]:
    """The likeliest tokens with their log-probabilities; the piece itself is among them at its rank."""
    count = min(top or 0, shape.size)
    texts = others(salt, count, piece.shown) if count else []
    if rank < count:
        texts[rank] = piece.shown
    return tuple((text, shape.logprob(place)) for place, text in enumerate(texts))


def echoed(choice: Choice, ask: Ask, behaviour: Behaviour, tokenizer: Tokenizer) -> Choice:
    """The choice with its prompt before it. Each prompt token falls on a rank of its own distribution."""
    text = ask.prompt or ""
    if ask.top is None:
        return replace(choice, echoed_text=text)
    tokens = []
    pieces = tokenizer.pieces(text)
    shape = with_entropy(
        round(behaviour.value("entropy", L=max(1, len(pieces)), T=1.0), 9), behaviour.vocabulary
    )
    for index, piece in enumerate(pieces):
        rank = shape.rank(uniform("echo", behaviour.seed, index, piece.text))
        top = _alternatives(piece, shape, rank, ask.top, digest("others", behaviour.seed, index))
        tokens.append(Token(piece, shape.logprob(rank) if index else None, top if index else ()))
    return replace(choice, echoed=tuple(tokens), echoed_text=text)
