"""The same question under other decodings: how much of an answer is the model's, how much the dice's?

    self_consistency   k samples of one temperature, each with a seed of its own
    temperature        k samples at each of several temperatures
    repetition_penalty, frequency_penalty, presence_penalty
                       greedy answers under a penalty swept from none
    greedy             temperature 0 asked again and again: the answer must not change
    seeded             temperature 1 with one seed asked again and again: neither must it

A probe is asked with every decoding of its task; the frame tells them apart by `temperature`, the penalties
and `decoding_seed`, and the forms of question by `variant`. All samples of a probe share its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bunny_probe.errors import SuiteError
from bunny_probe.families.base import Parameter, Params, cells, derive_seed, task
from bunny_probe.families.decoding_forms import FORMS, build
from bunny_probe.families.stress_bank import DOMAINS
from bunny_probe.records import Decoding, Probe
from bunny_probe.suites import Entry

__all__ = ["greedy", "penalty", "seeded", "self_consistency", "temperature"]

_USES = ("lengths", "languages", "domains")
_FORMS = Parameter(("recall", "sum"), "which questions: " + ", ".join(FORMS), choices=FORMS)
_SAMPLES = Parameter(8, "samples of each question, each with its own seed", low=2, high=1000)


def _seeds(entry: Entry, count: int) -> list[int]:
    """Different seeds of 31 bits, which every server takes."""
    return [(derive_seed(entry.seed, "decoding") + i) % 2**31 for i in range(count)]


def _probes(entry: Entry, params: Params) -> Iterator[Probe]:
    for cell in cells(entry, DOMAINS):
        for form in params["forms"]:
            yield build(cell, entry.task, form)


def _sampled(entry: Entry, params: Params) -> Sequence[Decoding]:
    seeds = _seeds(entry, params["k"])
    return [replace(entry.decoding, temperature=params["temperature"], seed=seed) for seed in seeds]


@task(
    "decoding",
    "self_consistency",
    summary="k samples of one question: how often do they agree, and is the agreed answer right?",
    scorer="anchor",
    uses=_USES,
    parameters={
        "forms": _FORMS,
        "k": _SAMPLES,
        "temperature": Parameter(0.7, "sampling temperature", low=0.01, high=2.0),
    },
    decoder=_sampled,
)
def self_consistency(entry: Entry, params: Params) -> Iterator[Probe]:
    yield from _probes(entry, params)


def _temperatures(entry: Entry, params: Params) -> Sequence[Decoding]:
    seeds = _seeds(entry, params["k"])
    found = []
    for value in params["temperatures"]:
        # at temperature 0 there is nothing to draw: one answer, without a seed
        drawn = [None] if value == 0 else seeds
        found += [replace(entry.decoding, temperature=value, seed=seed) for seed in drawn]
    return found


@task(
    "decoding",
    "temperature",
    summary="a sweep of the temperature: at which one do right answers get lost?",
    scorer="anchor",
    uses=_USES,
    parameters={
        "forms": _FORMS,
        "k": Parameter(4, _SAMPLES.help, low=1, high=1000),
        "temperatures": Parameter((0.0, 0.3, 0.7, 1.0, 1.3), "the temperatures", low=0.0, high=2.0),
    },
    decoder=_temperatures,
)
def temperature(entry: Entry, params: Params) -> Iterator[Probe]:
    yield from _probes(entry, params)


_SWEEPS: dict[str, tuple[tuple[float, ...], float, float]] = {
    "repetition_penalty": ((1.0, 1.1, 1.3, 1.6), 0.1, 5.0),
    "frequency_penalty": ((0.0, 0.5, 1.0, 2.0), -2.0, 2.0),
    "presence_penalty": ((0.0, 0.5, 1.0, 2.0), -2.0, 2.0),
}


def _sweep(entry: Entry, params: Params) -> Sequence[Decoding]:
    bare = replace(entry.decoding, temperature=0.0, seed=None)
    return [replace(bare, **{entry.task: value}) for value in params["values"]]


def penalty(entry: Entry, params: Params) -> Iterator[Probe]:
    """The probes of all three sweeps."""
    yield from _probes(entry, params)


for _name, (_values, _low, _high) in _SWEEPS.items():
    task(
        "decoding",
        _name,
        summary=f"a sweep of the {_name.replace('_', ' ')}: right answers lost, loops saved",
        scorer="anchor",
        uses=_USES,
        parameters={
            "forms": Parameter(("recall", "list", "write"), _FORMS.help, choices=FORMS),
            "values": Parameter(_values, "the penalties, the neutral one among them", low=_low, high=_high),
        },
        decoder=_sweep,
    )(penalty)


def _repeated(entry: Entry) -> None:
    if entry.repeats < 2:
        message = f"{entry.family}/{entry.task} compares repeats with each other; allowed: 2 to 10,000"
        raise SuiteError(message, file=entry.where, key="repeats")


def _as_greedy(entry: Entry, params: Params) -> Sequence[Decoding]:
    return [replace(entry.decoding, temperature=0.0, seed=None)]


@task(
    "decoding",
    "greedy",
    summary="temperature 0 again and again: is the answer the same to the letter? (set repeats)",
    scorer="repetition",
    uses=_USES,
    parameters={"forms": Parameter(("write", "recall"), _FORMS.help, choices=FORMS)},
    decoder=_as_greedy,
)
def greedy(entry: Entry, params: Params) -> Iterator[Probe]:
    _repeated(entry)
    yield from _probes(entry, params)


def _as_seeded(entry: Entry, params: Params) -> Sequence[Decoding]:
    return [replace(entry.decoding, temperature=params["temperature"], seed=_seeds(entry, 1)[0])]


@task(
    "decoding",
    "seeded",
    summary="one seed again and again: does the server honour it? (set repeats)",
    scorer="repetition",
    uses=_USES,
    parameters={
        "forms": Parameter(("write", "recall"), _FORMS.help, choices=FORMS),
        "temperature": Parameter(1.0, "sampling temperature", low=0.01, high=2.0),
    },
    decoder=_as_seeded,
)
def seeded(entry: Entry, params: Params) -> Iterator[Probe]:
    _repeated(entry)
    yield from _probes(entry, params)
