"""Prometheus text exposition, version 0.0.4: counters and histograms of the server, gauges of the engine."""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bunny_engine.server.trace import Trace

__all__ = ["Metrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Histogram:
    """Counts of values at or below each bound, cumulated only when written."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        below = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self._sum}"
        yield f"{name}_count {below}"


class Metrics:
    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._gone = 0
        self._tokens = dict.fromkeys(("prompt", "cached_prompt", "completion"), 0)
        self._first_token = Histogram(_SECONDS)
        self._seconds = Histogram(_SECONDS)

    def count(self, trace: Trace) -> None:
        """Once for each exchange, at its end."""
        self._requests[trace.route, trace.status] += 1
        self._gone += trace.gone
        if (tally := trace.tally) is not None:
            self._tokens["prompt"] += tally.prompt_tokens
            self._tokens["cached_prompt"] += tally.cached_tokens
            self._tokens["completion"] += tally.completion_tokens
            self._seconds.add(time.perf_counter() - trace.began)
            if tally.first_token_s is not None:
                self._first_token.add(tally.first_token_s)

    def text(self, engine: Mapping[str, float]) -> str:
        """`engine`: its own figures by name, each written as a gauge bunny_engine_<name>."""
        return "\n".join(self._lines(engine)) + "\n"

    def _lines(self, engine: Mapping[str, float]) -> Iterator[str]:
        yield (
            "# HELP bunny_http_requests_total Exchanges by route and status; 0: the client left before one.\n"
            "# TYPE bunny_http_requests_total counter"
        )
        for (route, status), count in sorted(self._requests.items()):
            yield f'bunny_http_requests_total{{route="{route}",status="{status}"}} {count}'
        yield (
            "# HELP bunny_clients_gone_total Exchanges that the client left early.\n"
            "# TYPE bunny_clients_gone_total counter"
        )
        yield f"bunny_clients_gone_total {self._gone}"
        for kind, count in self._tokens.items():
            yield (
                f"# HELP bunny_{kind}_tokens_total Tokens of generating requests.\n"
                f"# TYPE bunny_{kind}_tokens_total counter"
            )
            yield f"bunny_{kind}_tokens_total {count}"
        for name, what, histogram in (
            ("bunny_first_token_seconds", "Arrival to first token.", self._first_token),
            ("bunny_generation_seconds", "Arrival to the end of the answer.", self._seconds),
        ):
            yield f"# HELP {name} {what}\n# TYPE {name} histogram"
            yield from histogram.lines(name)
        for key, value in sorted(engine.items()):
            name = "bunny_engine_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)
            yield f"# HELP {name} Reported by the engine.\n# TYPE {name} gauge"
            yield f"{name} {float(value)}"
