"""`doctor`: walks an endpoint step by step, says what is wrong and what to do, and notes what it can do.

Costs about a dozen short calls; looking for the context limit costs more and is done only when allowed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from bunny_probe.endpoints.capabilities import Capabilities
from bunny_probe.endpoints.client import Endpoint
from bunny_probe.endpoints.context_limit import find_context_limit
from bunny_probe.endpoints.credit import key_limits
from bunny_probe.endpoints.echo import echo
from bunny_probe.endpoints.preflight import error_for, model_cards
from bunny_probe.errors import BunnyError
from bunny_probe.records import Attempt, Decoding, Message, Outcome

__all__ = ["Capabilities", "Diagnosis", "Finding", "examine"]

Status = Literal["ok", "warning", "failure", "unknown"]

_COUNT = [Message("user", "Count from 1 to 9, digits separated by single spaces, nothing else.")]
_INVENT = [Message("user", "Write one surprising sentence about a lighthouse.")]
_PLAIN = Decoding(max_tokens=24, top_logprobs=None)


@dataclass(frozen=True, slots=True)
class Finding:
    """One step of the examination."""

    step: str
    status: Status
    told: str  # what was seen
    advice: str = ""  # what to do about it; empty when nothing


@dataclass(frozen=True, slots=True)
class Diagnosis:
    endpoint: str  # for people
    fingerprint: str
    findings: tuple[Finding, ...]
    capabilities: Capabilities = field(default_factory=Capabilities)

    @property
    def examined(self) -> bool:
        """Whether it answered at all, so that the capabilities say something of it."""
        return any(finding.step == "usage" for finding in self.findings)

    @property
    def usable(self) -> bool:
        return all(finding.status != "failure" for finding in self.findings)


async def examine(
    endpoint: Endpoint,
    *,
    search_context: bool = False,
    most_tokens: int = 131_072,
    on_finding: Callable[[Finding], None] = lambda _: None,
) -> Diagnosis:
    """Walk all steps. `search_context`: look for the context limit by bisection, with prompts of up to
    `most_tokens` tokens. Never raises for what the endpoint does: a failure is a finding."""
    examination = _Examination(endpoint, search_context, most_tokens)
    findings = []
    async for finding in examination.walk():
        findings.append(finding)
        on_finding(finding)
    capabilities = replace(examination.found, dropped_fields=tuple(sorted(endpoint.dropped)))
    return Diagnosis(endpoint.name, endpoint.fingerprint, tuple(findings), capabilities)


class _Examination:
    def __init__(self, endpoint: Endpoint, search_context: bool, most_tokens: int) -> None:
        self._endpoint = endpoint
        self._search, self._most_tokens = search_context, most_tokens
        self._worst_lag, self._invalid, self._attempts = 0, 0, 0
        self.found = Capabilities()

    def _know(self, **what: Any) -> None:
        self.found = replace(self.found, **what)

    async def _ask(self, messages: list[Message], decoding: Decoding) -> Attempt:
        attempt = await self._endpoint.attempt(messages, decoding)
        self._attempts += 1
        if attempt.timing is not None:
            self._worst_lag = max(self._worst_lag, attempt.timing.client_lag or 0)
            self._invalid += not attempt.timing.valid
        return attempt

    async def walk(self) -> AsyncIterator[Finding]:
        try:
            await self._endpoint.check()
        except BunnyError as failure:
            yield Finding("reach", "failure", str(failure), "nothing else was examined")
            return
        yield Finding("reach", "ok", f"{self._endpoint.spec.url} answers, the key and the model are accepted")
        yield await self._listing()
        first = await self._ask(_COUNT, replace(_PLAIN, top_logprobs=20))
        if (error := error_for(self._endpoint.spec, first)) is not None:
            yield Finding("answer", "failure", str(error), "nothing else was examined")
            return
        if (credit := await key_limits(self._endpoint)) is not None:
            spent = credit.left is not None and credit.left <= 0
            advice = "top it up, or raise the key's limit" if spent else ""
            yield Finding("credit", "failure" if spent else "ok", credit.told(), advice)
        for look in (self._answer, self._streaming, self._usage, self._logprobs, self._reasoning):
            yield look(first)
        yield await self._echo()
        yield await self._stop()
        yield await self._limit()
        yield await self._seed()
        yield await self._penalties()
        yield await self._cache()
        yield await self._clock()
        if self._search:
            yield await self._context()
        if self._endpoint.dropped:
            names = ", ".join(sorted(self._endpoint.dropped))
            yield Finding(
                "fields", "warning", f"it refuses {names}", "they are left out, and each attempt says so"
            )
        yield self._saturation()

    async def _listing(self) -> Finding:
        try:
            cards = await model_cards(self._endpoint)
        except BunnyError as error:
            return Finding("models", "warning", str(error), "the model's name cannot be checked beforehand")
        card = next((item for item in cards if item["id"] == self._endpoint.spec.model), None)
        if card is None:
            return Finding(
                "models", "warning", "the model answers, but is not listed", "see that the name is meant"
            )
        for name in ("max_model_len", "context_length", "context_window"):
            if isinstance(card.get(name), int):
                self._know(context_limit=card[name], context_limit_source="listed")
                return Finding("models", "ok", f"listed, with a context of {card[name]:,} tokens")
        return Finding("models", "ok", "listed, without its context length")

    def _answer(self, first: Attempt) -> Finding:
        if first.outcome in (Outcome.ANSWERED, Outcome.OUTPUT_BUDGET):
            return Finding("answer", "ok", f"{first.outcome.value}: {first.evidence}")
        if first.outcome is Outcome.EMPTY and first.reasoning:
            return Finding("answer", "warning", f"{first.outcome.value}: {first.evidence}", "see reasoning")
        advice = "see its outcome"
        return Finding("answer", "failure", f"{first.outcome.value}: {first.evidence}", advice)

    def _streaming(self, first: Attempt) -> Finding:
        arrivals = len(set(first.trace.arrival))
        if arrivals > 1:
            self._know(streams=True)
            return Finding(
                "streaming", "ok", f"{len(first.trace.text)} tokens or pieces in {arrivals} arrivals"
            )
        if arrivals == 1 and len(first.text) > 3:
            self._know(streams=False)
            return Finding(
                "streaming",
                "warning",
                "the whole answer came at once",
                "times between tokens mean nothing here",
            )
        return Finding("streaming", "unknown", "the answer was too short to tell")

    def _usage(self, first: Attempt) -> Finding:
        given = first.usage.prompt_tokens is not None
        self._know(usage=given)
        if given:
            return Finding("usage", "ok", f"{first.usage.prompt_tokens} prompt tokens counted")
        return Finding(
            "usage",
            "warning",
            "no prompt tokens are told",
            "silent truncation cannot be seen, nor costs settled",
        )

    def _logprobs(self, first: Attempt) -> Finding:
        trace = first.trace
        if trace.source != "logprobs":
            self._know(logprobs=False)
            return Finding("logprobs", "warning", "none are given", "entropy and confidence stay empty")
        most = max((len(top) for top in trace.top), default=0)
        self._know(logprobs=True, top_logprobs=most, token_bytes=bool(trace.bytes_))
        if not most:
            return Finding("logprobs", "warning", "without alternatives", "entropies have no lower bound")
        return Finding("logprobs", "ok", f"with {most} alternatives a token")

    def _reasoning(self, first: Attempt) -> Finding:
        spent = first.usage.reasoning_tokens
        reasons = bool(first.reasoning or spent)
        self._know(reasons=reasons, reasoning_tokens=spent if reasons else None)
        if not reasons:
            return Finding("reasoning", "ok", "answers without reasoning that is told")
        told = "" if spent is None else f" of {spent:,} tokens"
        if first.text:
            return Finding(
                "reasoning", "ok", f"reasons first{told}", "grant it room of its own: --reasoning-tokens"
            )
        return Finding(
            "reasoning",
            "warning",
            f"its reasoning{told} left no room for an answer of {_PLAIN.max_tokens} tokens",
            "grant it room of its own, such as --reasoning-tokens 4096, or pay for answers that never come",
        )

    async def _echo(self) -> Finding:
        echoed = await echo(self._endpoint, "The keeper wrote the weather down.")
        self._know(echo=echoed is not None)
        if echoed is None:
            return Finding("echo", "ok", "prompt log-probabilities are not offered")
        return Finding("echo", "ok", f"log-probabilities of a prompt's own {len(echoed.text)} tokens")

    async def _stop(self) -> Finding:
        attempt = await self._ask(_COUNT, replace(_PLAIN, stop=(" 5",)))
        if "stop" in attempt.dropped_fields or "stop_sequences" in attempt.dropped_fields:
            self._know(stop=False)
            return Finding("stop", "warning", "stop strings are refused", "answers may run on to their limit")
        if "4" not in attempt.text:
            return Finding("stop", "unknown", "the model did not count as far as the stop string")
        kept = " 5" not in attempt.text
        self._know(stop=kept)
        if kept:
            return Finding("stop", "ok", "the answer ends before the stop string")
        return Finding(
            "stop", "failure", "the stop string is in the answer", "do not rely on stop strings here"
        )

    async def _limit(self) -> Finding:
        attempt = await self._ask(_INVENT, replace(_PLAIN, max_tokens=3))
        spent = attempt.usage.completion_tokens if attempt.usage.source != "chunks" else None
        most = 3 + self._endpoint.spec.reasoning_tokens
        kept = attempt.outcome is Outcome.OUTPUT_BUDGET and (spent is None or spent <= most)
        if spent is not None and spent > most:
            self._know(output_limit=False)
            return Finding(
                "limit", "failure", "the answer goes beyond max_tokens", "costs cannot be bounded here"
            )
        self._know(output_limit=kept or None)
        return Finding("limit", "ok" if kept else "unknown", f"max_tokens 3 gave {attempt.outcome.value}")

    async def _seed(self) -> Finding:
        warm = replace(_PLAIN, temperature=1.0, max_tokens=20)
        seeded = [await self._ask(_INVENT, replace(warm, seed=7)) for _ in range(2)]
        if any("seed" in attempt.dropped_fields for attempt in seeded):
            self._know(seed=False)
            return Finding("seed", "warning", "seeds are refused", "repeats cannot be reproduced")
        if seeded[0].text != seeded[1].text:
            self._know(seed=False)
            return Finding("seed", "warning", "the same seed gave two texts", "repeats cannot be reproduced")
        other = await self._ask(_INVENT, replace(warm, seed=8))
        if other.text == seeded[0].text:
            return Finding("seed", "unknown", "every seed gave the same text: is temperature taken?")
        self._know(seed=True)
        return Finding("seed", "ok", "the same seed gives the same text, another one another")

    async def _penalties(self) -> Finding:
        decoding = replace(_PLAIN, frequency_penalty=0.5, presence_penalty=0.5)
        attempt = await self._ask(_INVENT, decoding)
        refused = {"frequency_penalty", "presence_penalty"} & set(attempt.dropped_fields)
        taken = attempt.status == 200 and not refused
        self._know(penalties=taken)
        if taken:
            return Finding("penalties", "ok", "taken (whether they act is not told)")
        return Finding("penalties", "warning", f"refused: {', '.join(sorted(refused)) or attempt.evidence}")

    async def _cache(self) -> Finding:
        text = "The lighthouse keeper wrote the weather down every morning. " * 60
        long = [Message("user", text + "Say only: yes.")]
        seen = [(await self._ask(long, _PLAIN)).usage.cached_tokens for _ in range(2)]
        self._know(prompt_cache=None if seen[1] is None else seen[1] > 0)
        if seen[1] is None:
            return Finding(
                "cache", "unknown", "cached prompt tokens are not told", "vary the haystack when timing"
            )
        if seen[1]:
            told = f"{seen[1]} tokens of a repeated prompt came from its cache"
            return Finding("cache", "warning", told, "timing probes must not share a haystack")
        return Finding("cache", "ok", "a repeated prompt is read anew")

    async def _clock(self) -> Finding:
        import httpx

        before = time.time()
        try:
            response = await self._endpoint.http.get(self._endpoint.spec.join("/models"))
            theirs = parsedate_to_datetime(response.headers["Date"]).timestamp()
        except (httpx.HTTPError, KeyError, ValueError):
            return Finding("clock", "unknown", "the server tells no time")
        skew = theirs + 0.5 - (before + time.time()) / 2  # a Date header has whole seconds
        self._know(clock_skew_s=round(skew, 1))
        if abs(skew) > 5:
            return Finding("clock", "warning", f"{skew:+.0f} s apart", "dates in Retry-After will be misread")
        return Finding("clock", "ok", "within 5 s of ours")

    async def _context(self) -> Finding:
        limit = await find_context_limit(self._ask, self._most_tokens)
        self._know(truncates_silently=limit.truncates)
        if limit.truncates:
            return Finding(
                "context", "failure", limit.told, "stay below it: answers above are to other prompts"
            )
        if limit.tokens is not None:
            self._know(context_limit=limit.tokens, context_limit_source="searched")
        return Finding("context", "ok" if limit.tokens is not None else "unknown", limit.told)

    def _saturation(self) -> Finding:
        told = f"worst lateness of the client {self._worst_lag / 1e6:.1f} ms in {self._attempts} attempts"
        if self._invalid:
            advice = f"{self._invalid} of them have invalid times: free the CPU before timing anything"
            return Finding("client", "warning", told, advice)
        return Finding("client", "ok", told)
