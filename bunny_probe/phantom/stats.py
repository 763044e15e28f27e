"""What the phantom served: the other side of the books, by which a client's own books are checked."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any

__all__ = ["PromptCount", "Served", "Stats"]

_LOG = 100_000  # newest requests kept one by one
_LATENESS = 200_000  # newest event latenesses kept


@dataclass(slots=True)
class Served:
    """One request, as it went."""

    number: int  # order of arrival, from 0
    arrived_ns: int  # time.perf_counter_ns when the request's head was read
    dialect: str = ""
    model: str = ""
    prompt_hash: str = ""
    count: int = 0  # how often this prompt had been asked before
    prompt_tokens: int = 0
    cached_tokens: int = 0
    planned_tokens: int = 0  # tokens of the whole answer
    sent_tokens: int = 0  # tokens that went out
    kinds: tuple[str, ...] = ()  # what each choice was decided to be: hit, miss, …
    faults: tuple[str, ...] = ()
    status: int = 0  # HTTP status that went out; 0: none did
    answered: bool = False  # the whole answer went out, with its end
    gone: bool = False  # the client left first
    cost: float = 0.0  # US dollars charged
    queued_s: float = 0.0  # waited for a free slot; the times below count from its end
    due_ttft_s: float = 0.0  # by the latency law
    sent_ttft_s: float | None = None  # first content written
    latest_s: float = 0.0  # worst lateness of an event against its schedule


@dataclass(slots=True)
class PromptCount:
    requests: int = 0
    answered: int = 0


class Stats:
    """Counts of one phantom. Safe to read from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._clear()

    def _clear(self) -> None:
        self._number = 0
        self._active = 0
        self._peak = 0
        self._cost_pico = 0
        self._totals: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self._faults: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._prompts: dict[str, PromptCount] = {}
        self._log: deque[Served] = deque(maxlen=_LOG)
        self._lateness: deque[float] = deque(maxlen=_LATENESS)

    def reset(self) -> None:
        """Counts from nothing again; requests in flight are counted when they end."""
        with self._lock:
            active = self._active
            self._clear()
            self._active = self._peak = active

    def open(self, arrived_ns: int) -> Served:
        with self._lock:
            served = Served(self._number, arrived_ns)
            self._number += 1
            self._active += 1
            self._peak = max(self._peak, self._active)
            return served

    def ask(self, prompt_hash: str) -> int:
        """Notes that a prompt is asked; how often it was before."""
        with self._lock:
            count = self._prompts.setdefault(prompt_hash, PromptCount())
            count.requests += 1
            return count.requests - 1

    def late(self, seconds: float) -> None:
        self._lateness.append(seconds)

    def close(self, served: Served) -> None:
        with self._lock:
            self._active -= 1
            self._totals["requests"] += 1
            self._totals["answered"] += served.answered
            self._totals["gone"] += served.gone
            self._totals["prompt_tokens"] += served.prompt_tokens
            self._totals["completion_tokens"] += served.sent_tokens
            self._statuses[served.status] += 1
            self._faults.update(served.faults)
            self._cost_pico += round(served.cost * 1e12)
            if served.answered:
                self._kinds.update(served.kinds)
                if served.prompt_hash in self._prompts:
                    self._prompts[served.prompt_hash].answered += 1
            self._log.append(served)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def log(self) -> list[Served]:
        """The newest requests, oldest first."""
        with self._lock:
            return list(self._log)

    @property
    def prompts(self) -> Mapping[str, PromptCount]:
        """Requests and whole answers by prompt hash."""
        with self._lock:
            return {digest: PromptCount(c.requests, c.answered) for digest, c in self._prompts.items()}

    @property
    def cost(self) -> float:
        """US dollars charged."""
        return self._cost_pico / 1e12

    def snapshot(self, *, prompts: bool = True, log: bool = False) -> dict[str, Any]:
        """All counts as JSON values."""
        with self._lock:
            late = sorted(self._lateness)
            result: dict[str, Any] = {
                "requests": self._totals["requests"],
                "answered": self._totals["answered"],
                "gone": self._totals["gone"],
                "active": self._active,
                "concurrency_peak": self._peak,
                "prompt_tokens": self._totals["prompt_tokens"],
                "completion_tokens": self._totals["completion_tokens"],
                "cost": self._cost_pico / 1e12,
                "statuses": {str(status): n for status, n in sorted(self._statuses.items())},
                "faults": dict(sorted(self._faults.items())),
                "kinds": dict(sorted(self._kinds.items())),
                "prompts_asked": len(self._prompts),
                "prompts_answered_twice": sum(count.answered > 1 for count in self._prompts.values()),
                "lateness_s": {
                    "events": len(late),
                    "p50": _quantile(late, 0.5),
                    "p99": _quantile(late, 0.99),
                    "max": late[-1] if late else None,
                },
            }
            if prompts:
                result["prompts"] = {digest: asdict(count) for digest, count in self._prompts.items()}
            if log:
                result["log"] = [asdict(served) for served in self._log]
            return result


def _quantile(ordered: list[float], q: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else None
