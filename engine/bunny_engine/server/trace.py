"""What one request did: for its usage, the log line and the metrics. No word of its prompt or its answer."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from bunny_engine.server.generation import Piece
from bunny_engine.types import PromptStart

__all__ = ["Tally", "Trace"]

_log = logging.getLogger("bunny_engine.server")


@dataclass(slots=True)
class Tally:
    """What the request cost so far. A prompt counts once, however many choices it has."""

    prompt_tokens: int
    n: int  # choices a prompt
    began: float
    cached_tokens: int = 0
    completion_tokens: int = 0
    queued_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float | None = None  # since the request came in
    finishes: list[str] = field(default_factory=list)

    def note(self, index: int, what: PromptStart | Piece) -> None:
        if isinstance(what, PromptStart):
            if index % self.n == 0:
                self.cached_tokens += what.cached_tokens
                self.queued_s = max(self.queued_s, what.queued_s)
                self.prefill_s += what.prefill_s
            return
        if what.step is not None:
            self.completion_tokens += 1
            if self.first_token_s is None:
                self.first_token_s = time.perf_counter() - self.began
        if what.finish:
            self.finishes.append(what.finish)

    def usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def timings(self) -> dict[str, Any]:
        """Seconds. `prefill_s` is summed over prompts; `queued_s` is the longest wait."""
        return {
            "queued_s": self.queued_s,
            "prefill_s": self.prefill_s,
            "first_token_s": self.first_token_s,
            "total_s": time.perf_counter() - self.began,
        }


@dataclass(slots=True)
class Trace:
    """One HTTP exchange."""

    id: str
    method: str
    began: float  # time.perf_counter()
    route: str = "unmatched"  # the pattern, never the path: a path is the client's text
    status: int = 0
    stream: bool = False
    gone: bool = False  # the client left before the answer was whole
    fault: str | None = None  # what ended a stream that had begun
    tally: Tally | None = None

    def log(self) -> None:
        line: dict[str, Any] = {
            "event": "request",
            "id": self.id,
            "method": self.method,
            "route": self.route,
            "status": self.status,
            "seconds": round(time.perf_counter() - self.began, 6),
        }
        if self.gone:
            line["client_gone"] = True
        if self.fault:
            line["fault"] = self.fault
        if self.tally:
            line["stream"] = self.stream
            line["usage"] = self.tally.usage()
            line["timings"] = self.tally.timings()
            line["finish"] = self.tally.finishes
        _log.info("%s", orjson.dumps(line).decode())
