"""What a phantom model does: the truth that the instrument is to find again.

Rates are curves (see `curves`): a number, an expression over L and depth, or a table. They are probabilities
per answer, held into [0, 1]. One answer is drawn in this order:

    refusal ──▶ recall ──▶ wrong_anchor ──▶ abstain ──▶ else a made-up value
                                                        (then format_break, on its own)

`wrong_anchor` and `abstain` are shares of all answers that are not refusals; where recall leaves less room than
they ask for, they get what is left. `Behaviour.rates` says what is really in force at a point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.phantom.curves import VARIABLES, Curve, Table, evaluate, evaluator
from bunny_probe.phantom.faults import parse_faults

__all__ = ["Behaviour", "Latency", "Override", "Price", "Rates"]

CURVES = ("recall", "wrong_anchor", "abstain", "refusal", "format_break", "consistency", "entropy")


@dataclass(frozen=True, slots=True)
class Latency:
    """Time to first token = base + per_prompt_token·prompt + per_uncached_token·(prompt − cached), in seconds.

    Spreads are coefficients of variation (standard deviation over mean); means stay as stated. A share
    `slow_rate` of the requests takes `slow_factor` times as long, first token and gaps alike.
    """

    base: float = 0.0  # seconds
    per_prompt_token: float = 0.0  # seconds a token
    per_uncached_token: float = 0.0  # seconds a token that no prefix cache held
    ttft_spread: float = 0.0
    gap: float = 0.0  # mean seconds between tokens
    gap_spread: float = 0.0
    distribution: Literal["gamma", "lognormal", "normal", "uniform"] = "gamma"  # of both spreads
    slow_rate: float = 0.0
    slow_factor: float = 1.0
    contention: float = 0.0  # share by which each other request in flight at arrival stretches all times

    def __post_init__(self) -> None:
        for name in (
            "base",
            "per_prompt_token",
            "per_uncached_token",
            "ttft_spread",
            "gap",
            "gap_spread",
            "contention",
        ):
            _check(0 <= getattr(self, name) < math.inf, f"latency.{name} must be 0 or more")
        _check(0 <= self.slow_rate <= 1, "latency.slow_rate must lie in [0, 1]")
        _check(0 < self.slow_factor < math.inf, "latency.slow_factor must be above 0")
        _choice("latency.distribution", self.distribution, ("gamma", "lognormal", "normal", "uniform"))


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a token. `cached` is what a prompt token from the prefix cache costs (None: as any other)."""

    prompt: float = 0.0
    completion: float = 0.0
    cached: float | None = None
    report: bool = False  # whether usage.cost is sent, as OpenRouter does

    def __post_init__(self) -> None:
        for name in ("prompt", "completion", "cached"):
            value = getattr(self, name)
            _check(value is None or 0 <= value < math.inf, f"price.{name} must be 0 or more")

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        held = self.prompt if self.cached is None else self.cached
        return (prompt - cached) * self.prompt + cached * held + completion * self.completion


@dataclass(frozen=True, slots=True)
class Override:
    """Other curves for the prompts whose key line says so, for example when = {"task": "negation"}."""

    when: Mapping[str, str]
    curves: Mapping[str, Curve]


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities in force at one point; hit + wrong_anchor + abstain + miss = 1, given no refusal."""

    hit: float
    wrong_anchor: float
    abstain: float
    miss: float
    refusal: float
    format_break: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One phantom model. The defaults answer right, at once, for nothing."""

    name: str = "reliable"  # served as "phantom-<name>"
    # what it says
    recall: Curve = 1.0
    wrong_anchor: Curve = 0.0
    abstain: Curve = 0.0
    refusal: Curve = 0.0
    format_break: Curve = 0.0
    consistency: Curve = 0.0  # share of sampled answers that repeat the greedy one
    refusal_style: Literal["field", "text"] = "field"  # the API's own marker, or words
    answer_template: str = "{answer}"
    abstain_text: str = "I don't know."
    refusal_text: str = "I'm sorry, but I can't help with that."
    answer_tokens: int | None = None  # pads or cuts every answer to so many tokens
    free_tokens: int = 32  # tokens of an answer to a prompt whose answer it does not know
    reasoning_tokens: int = 0  # of reasoning before the answer, out of the same output budget
    # how sure it is
    entropy: Curve = 0.5  # nats a token
    vocabulary: int = 50_000
    logprobs: Literal["on", "ignore", "reject"] = "on"
    # what it takes
    context_limit: int = 2_000_000  # tokens, prompt and answer together
    truncate_at: int | None = None  # drops prompt tokens beyond this without a word
    truncate_keep: Literal["head", "tail"] = "tail"
    tokenizer: str = "words"  # or the path of a tokenizer.json
    refuse_fields: tuple[str, ...] = ()  # request fields answered with a 400 that names them
    # how fast, for how much
    latency: Latency = field(default_factory=Latency)
    price: Price = field(default_factory=Price)
    prefix_cache_tokens: int = 0  # capacity; 0: no prefix cache
    prefix_block: int = 256  # tokens
    slots: int | None = None  # requests served at a time
    over_slots: Literal["queue", "429"] = "queue"
    requests_per_second: float | None = None  # beyond it: 429 with Retry-After
    burst: int = 1  # requests that may come at once under that limit
    # what goes wrong
    fault_rates: Mapping[str, float] = field(default_factory=dict)  # fault → share of requests
    each_prompt: tuple[str, ...] = ()  # faults of a prompt's first, second, … request
    overrides: tuple[Override, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        _check(bool(self.name.strip()), "a model needs a name")
        point = {name: default for name, (default, _) in VARIABLES.items()}
        for name in CURVES:
            _check_curve(name, getattr(self, name), point)
        for override in self.overrides:
            for name, curve in override.curves.items():
                _choice("overridden curve", name, CURVES)
                _check_curve(name, curve, point)
        _check("{answer}" in self.answer_template, "answer_template must contain {answer}")
        _choice("refusal_style", self.refusal_style, ("field", "text"))
        _choice("logprobs", self.logprobs, ("on", "ignore", "reject"))
        _choice("truncate_keep", self.truncate_keep, ("head", "tail"))
        _choice("over_slots", self.over_slots, ("queue", "429"))
        for name, least in (
            ("vocabulary", 2), ("context_limit", 1), ("prefix_block", 1), ("free_tokens", 0),
            ("reasoning_tokens", 0), ("prefix_cache_tokens", 0), ("answer_tokens", 1), ("truncate_at", 1),
            ("slots", 1), ("burst", 1),
        ):  # fmt: skip
            value = getattr(self, name)
            _check(value is None or value >= least, f"{name} must be {least} or more, not {value}")
        _check(
            self.requests_per_second is None or 0 < self.requests_per_second < math.inf,
            "requests_per_second must be above 0",
        )
        _check(sum(self.fault_rates.values()) <= 1, "fault_rates add up to more than 1")
        for name, rate in self.fault_rates.items():
            _check(0 <= rate <= 1, f"fault_rates: {name} must lie in [0, 1]")
            parse_faults(name)
        for name in self.each_prompt:
            parse_faults(name)
        object.__setattr__(self, "fault_rates", MappingProxyType(dict(self.fault_rates)))

    @property
    def model(self) -> str:
        """The served model name: it begins with "phantom", so no result of it can pass for a model's."""
        return self.name if self.name.startswith("phantom") else f"phantom-{self.name}"

    def under(self, facts: Mapping[str, str]) -> Behaviour:
        """The behaviour for a prompt of these facts (family, task, variant, …): later overrides win."""
        changes: dict[str, Any] = {}
        for override in self.overrides:
            if all(facts.get(name) == wanted for name, wanted in override.when.items()):
                changes.update(override.curves)
        if not changes:
            return self
        other = copy(self)  # its curves were checked when self was made
        for name, curve in changes.items():
            object.__setattr__(other, name, curve)
        return other

    def value(self, curve: str, **variables: float) -> float:
        """A curve's value at a point (see `curves.VARIABLES`); rates are held into [0, 1]."""
        value = evaluate(getattr(self, curve), **variables)
        return max(0.0, value) if curve == "entropy" else min(max(value, 0.0), 1.0)

    def rates(self, **variables: float) -> Rates:
        """What is really in force at a point: `behaviour.rates(L=32_768, depth=0.5).hit`."""
        hit = self.value("recall", **variables)
        wrong = min(self.value("wrong_anchor", **variables), 1 - hit)
        abstain = min(self.value("abstain", **variables), 1 - hit - wrong)
        return Rates(
            hit=hit,
            wrong_anchor=wrong,
            abstain=abstain,
            miss=max(0.0, 1 - hit - wrong - abstain),
            refusal=self.value("refusal", **variables),
            format_break=self.value("format_break", **variables),
        )

    def settings(self) -> dict[str, Any]:
        """All of it as JSON values, as `loading.behaviours_from` reads them."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Table | Latency | Price | Override):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)


def _choice(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UsageError(unknown_choice(name, given, known))


def _check_curve(name: str, curve: Curve, point: Mapping[str, float]) -> None:
    """Tries the curve where it will be used, so that a division by zero shows before the first request."""
    try:
        run = evaluator(curve)
        for length in (1.0, 1_024.0, 131_072.0, 1_048_576.0):
            for depth in (0.0, 0.5, 1.0):
                for temperature in (0.0, 1.0):
                    run({**point, "L": length, "depth": depth, "T": temperature})
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
