"""A document that is counted once, and how it lands on a number of tokens exactly.

sentences:  s1 s2 s3 …            counted in batches as far as they are needed, and never again
prefix sums: 0 c1 c1+c2 …         the longest prefix that fits is found by bisection
closers:    short sentences of many lengths, of which the fewest are taken that fill what is left
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from bunny_probe.errors import LengthError

__all__ = ["Document", "closing"]

Following = Callable[[Sequence[str]], list[int]]
_STEP_BACK = 16  # sentences that may be given up to make the rest fillable
_REACH = 400  # tokens that closers are combined for
_FIRST = 8  # sentences counted before their mean length is known


class Document:
    """The stream of one filler with the prefix sums of its counts, as far as it was read."""

    def __init__(self, blocks: Iterator[list[str]]) -> None:
        self._blocks = blocks
        self._ahead: list[str] = []  # drawn and not yet counted
        self.sentences: list[str] = []
        self.sums: list[int] = [0]  # sums[i]: tokens of the first i sentences
        self.ended = False

    def reach(self, tokens: int, following: Following) -> None:
        """Reads on until the sentences hold at least `tokens`, or the stream ends."""
        while self.sums[-1] <= tokens and not self.ended:
            done = len(self.sentences)
            wanted = self._missing(tokens, done) if done else _FIRST
            self._draw(wanted)
            batch, self._ahead = self._ahead[:wanted], self._ahead[wanted:]
            self.ended = not batch
            for count in following(batch) if batch else ():
                self.sums.append(self.sums[-1] + count)
            self.sentences += batch

    def _missing(self, tokens: int, done: int) -> int:
        """Sentences to read next: fewer than the mean so far calls for, as it may be off by 1 / sqrt(n)."""
        mean = max(self.sums[-1] / done, 1.0)
        return max(int((tokens - self.sums[-1]) / mean * (1 - done**-0.5)), 1)

    def _draw(self, wanted: int) -> None:
        while len(self._ahead) < wanted:
            block = next(self._blocks, None)
            if block is None:
                return
            self._ahead += block

    def land(self, tokens: int, closers: Sequence[int], back: int = 0) -> tuple[int, tuple[int, ...]]:
        """How many sentences, and which closers behind them, hold exactly `tokens`.

        `closers` are the counts of the closing sentences; `back` sentences are given up for other closers,
        to try another composition of the same length. Raises `LengthError` when the stream is too
        short or no combination fits.
        """
        fit = bisect_right(self.sums, tokens) - 1
        if self.ended and fit == len(self.sentences) and tokens - self.sums[fit] > _REACH // 4:
            raise LengthError(
                f"the filling text ends after {self.sums[-1]:,} tokens and {tokens:,} are needed: "
                "ask for a shorter length or give more documents"
            )
        start = max(fit - back, 0)
        for kept in range(start, max(-1, start - _STEP_BACK - 1), -1):
            chosen = closing(tokens - self.sums[kept], tuple(closers))
            if chosen is not None:
                return kept, chosen
        raise LengthError(
            f"{tokens} tokens of filling text cannot be made of whole sentences "
            f"(the shortest has {min(closers, default=0)}); a length some tokens larger can"
        )


@lru_cache(maxsize=64)
def _table(closers: tuple[int, ...]) -> tuple[tuple[int, ...] | None, ...]:
    """For each number of tokens up to `_REACH`: the fewest different closers that sum to it."""
    best: list[tuple[int, ...] | None] = [()] + [None] * _REACH
    for index, count in enumerate(closers):
        if count <= 0:
            continue
        for total in range(_REACH, count - 1, -1):
            shorter = best[total - count]
            current = best[total]
            if shorter is not None and (current is None or len(shorter) + 1 < len(current)):
                best[total] = (*shorter, index)
    return tuple(best)


def closing(tokens: int, closers: tuple[int, ...]) -> tuple[int, ...] | None:
    """Which closers, the fewest, hold exactly `tokens` together; None when no choice does."""
    return _table(closers)[tokens] if 0 <= tokens <= _REACH else None
