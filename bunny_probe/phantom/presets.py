"""Behaviours with a name, for the command line and for tests: each is a way in which real models fail."""

from __future__ import annotations

from collections.abc import Mapping

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.phantom.behaviour import Behaviour, Latency, Override, Price

__all__ = ["PRESETS", "preset"]

_BRISK = Latency(base=0.02, per_uncached_token=2e-6, gap=0.002, ttft_spread=0.2, gap_spread=0.3)

PRESETS: Mapping[str, Behaviour] = {
    behaviour.name: behaviour
    for behaviour in (
        Behaviour("reliable", recall=0.98, abstain=0.01, entropy=0.3, latency=_BRISK, context_limit=1_048_576),
        Behaviour(
            "forgetful",
            recall="0.95 * exp(-L / 40000)",
            wrong_anchor=0.15,
            abstain=0.1,
            entropy="0.3 + 0.2 * log2(max(1, L / 1024))",
            latency=_BRISK,
            context_limit=131_072,
        ),
        Behaviour("cliff", recall="where(L < 16384, 0.95, 0.1)", wrong_anchor=0.3, latency=_BRISK),
        Behaviour(
            "lost-in-the-middle",
            recall="0.95 - 2.2 * depth * (1 - depth) * min(1, L / 8192)",
            wrong_anchor=0.2,
            latency=_BRISK,
        ),
        Behaviour(
            "window",
            recall="where((1 - depth) * L < 20000, 0.95, 0.05)",
            wrong_anchor=0.4,
            latency=_BRISK,
            context_limit=131_072,
        ),
        Behaviour("truncating", recall=0.97, truncate_at=4_096, latency=_BRISK),
        Behaviour(
            "collapsing",
            recall="0.95 / (1 + (L / 30000) ** 3)",
            entropy="min(9, 0.3 + 8 * sigmoid((L - 30000) / 4000))",
            latency=_BRISK,
        ),
        Behaviour(
            "sloppy",
            recall=0.95,
            format_break="0.1 + 0.5 * sigmoid((L - 8000) / 2000)",
            refusal=0.03,
            consistency=0.2,
            overrides=(Override({"task": "negation"}, {"recall": 0.5}),),
            latency=_BRISK,
        ),
        Behaviour(
            "tempered",
            recall="0.95 - 0.4 * clip(T, 0, 2) - 0.5 * max(0, repetition_penalty - 1)",
            consistency="max(0, 0.9 - 0.4 * T)",
            latency=_BRISK,
        ),
        Behaviour(
            "slow",
            recall="0.95 - 0.4 * slow",
            latency=Latency(
                base=0.2,
                per_prompt_token=2e-5,
                gap=0.02,
                ttft_spread=0.3,
                gap_spread=0.4,
                slow_rate=0.1,
                slow_factor=4,
            ),
        ),
        Behaviour(
            "flaky",
            recall=0.95,
            fault_rates={
                "rate-limit:0": 0.05,
                "server-error": 0.05,
                "cut": 0.03,
                "stream-error": 0.02,
                "reset": 0.02,
            },
            latency=_BRISK,
        ),
        Behaviour("priced", recall=0.95, price=Price(1e-6, 4e-6, 1e-7, report=True), latency=_BRISK),
        Behaviour("thinking", recall=0.97, reasoning_tokens=24, latency=_BRISK),
        Behaviour("caching", recall=0.97, prefix_cache_tokens=4_000_000, latency=_BRISK),
    )
}
"""By name; served as "phantom-<name>"."""


def preset(name: str) -> Behaviour:
    """Raises UsageError with the known names."""
    known = name.removeprefix("phantom-")
    if known not in PRESETS:
        raise UsageError(unknown_choice("phantom model", name, PRESETS))
    return PRESETS[known]
