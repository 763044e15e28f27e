"""The fault table: every fault that the phantom can show, over every dialect, called by its right name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
import pytest

from bunny_probe.endpoints import EndpointSpec, Exchanged, Timeouts, open_endpoint
from bunny_probe.phantom import FAULTS, Behaviour, Latency, Phantom
from bunny_probe.records import Decoding, Message, Outcome

PROMPT = (
    "The harbour was quiet all week, and nobody slept. The access code for Oslo is KX-4410-T. "
    "The ferry left at noon.\n\nWhat is the access code for Oslo?"
)
MESSAGES = [Message("user", PROMPT)]
DIALECTS = ("openai-chat", "openai-completions", "anthropic-messages")
PATIENT = Timeouts(connect=10.0, first_byte=10.0, idle=10.0, total=20.0)
HASTY = Timeouts(connect=10.0, first_byte=0.5, idle=0.5, total=1.0)

# What a dialect has no words for; the phantom then answers without the fault.
UNSAID = {
    ("openai-completions", "refusal"),
    ("openai-completions", "null-content"),
    ("openai-completions", "reasoning-only"),
}

# Anthropic's one marker, the stop reason "refusal", stands for what others call a content filter.
SAID_OTHERWISE = {("anthropic-messages", "content-filter"): "refusal"}


@dataclass(frozen=True)
class Case:
    dialect: str
    fault: str

    @property
    def outcome(self) -> Outcome:
        named = SAID_OTHERWISE.get((self.dialect, self.fault), FAULTS[self.fault].outcome)
        return Outcome.ANSWERED if named is None else Outcome(named)

    def __str__(self) -> str:
        return f"{self.dialect}-{self.fault}"


CASES = [Case(d, f) for d in DIALECTS for f in FAULTS if (d, f) not in UNSAID]


@pytest.fixture(scope="module")
def table() -> dict[Case, Exchanged]:
    """Every case asked once, many at a time."""
    behaviour = Behaviour(answer_tokens=10, latency=Latency(gap=0.002))
    with Phantom(behaviour) as phantom:

        async def one(case: Case, intended: int, gate: asyncio.Semaphore) -> Exchanged:
            spec = EndpointSpec(
                phantom.url,
                phantom.model,
                case.dialect,
                headers={"X-Phantom-Fault": case.fault},
                timeouts=HASTY if case.outcome is Outcome.TIMEOUT else PATIENT,
                max_response_bytes=1 << 30,
            )
            async with gate, open_endpoint(spec) as endpoint:
                return await endpoint.exchange(MESSAGES, Decoding(max_tokens=64, seed=1), intended)

        async def ask() -> dict[Case, Exchanged]:
            async with httpx.AsyncClient() as http:
                chat = {"messages": [{"role": "user", "content": PROMPT}]}
                counts = [(await http.post(f"{phantom.root}/tokenize", json=b)).json()["count"]
                          for b in (chat, {"prompt": PROMPT})]  # fmt: skip
            gate = asyncio.Semaphore(16)
            asked = [one(case, counts[case.dialect == "openai-completions"], gate) for case in CASES]
            return dict(zip(CASES, await asyncio.gather(*asked), strict=True))

        return asyncio.run(ask())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_fault_is_called_by_its_name(table: dict[Case, Exchanged], case: Case) -> None:
    """Every fault of every dialect gets its own outcome, with evidence; none is taken for an answer."""
    attempt = table[case].attempt
    assert attempt.outcome is case.outcome, attempt.evidence
    assert attempt.evidence
    assert (attempt.outcome is Outcome.ANSWERED) == (FAULTS[case.fault].outcome is None)


@pytest.mark.parametrize("case", [c for c in CASES if FAULTS[c.fault].answered], ids=str)
def test_an_answer_survives_its_framing(table: dict[Case, Exchanged], case: Case) -> None:
    """Whatever the framing, the whole text comes through, and no character is cut."""
    text = table[case].attempt.text
    assert text.startswith("KX-4410-T"), text
    assert "\ufffd" not in text


def test_a_refused_optional_field_is_named(table: dict[Case, Exchanged]) -> None:
    """A 400 that names an optional field says which one may be left out."""
    for dialect in DIALECTS:
        exchanged = table[Case(dialect, "strict")]
        assert exchanged.refused, (dialect, exchanged.attempt.evidence)


def test_no_data_is_none(table: dict[Case, Exchanged]) -> None:
    """A server without usage, or with zeros for it, gives None and a count whose source is named."""
    for dialect in DIALECTS:
        for fault in ("usage-absent", "usage-zero"):
            usage = table[Case(dialect, fault)].attempt.usage
            assert usage.prompt_tokens is None
            assert usage.completion_tokens != 0
            assert usage.source != "usage"


def test_waits_are_read_from_all_three_forms(table: dict[Case, Exchanged]) -> None:
    """Retry-After is read as seconds, as a date and in milliseconds; where it is missing it is None."""
    for dialect in DIALECTS:
        assert table[Case(dialect, "rate-limit")].attempt.retry_after is None
        assert table[Case(dialect, "rate-limit-ms")].attempt.retry_after == 1.5
        dated = table[Case(dialect, "rate-limit-date")].attempt.retry_after
        assert dated is not None
        assert 0.0 < dated <= 3.0  # a date has whole seconds, rounded up


def test_ttft_is_content_not_role(table: dict[Case, Exchanged]) -> None:
    """The role chunk, 0.2 s before the content, is the first event and never the first content."""
    timing = table[Case("openai-chat", "role-first")].attempt.timing
    assert timing is not None
    assert timing.first_event is not None
    assert timing.first_content is not None
    assert timing.first_content - timing.first_event >= 120_000_000
