"""Calibration from a few paid calls: close, and honest about how close."""

from __future__ import annotations

import pytest

from bunny_probe.errors import UsageError
from bunny_probe.records import Expectation, Filler, Insertion, Message, Probe, Recipe
from bunny_probe.text import CalibratedCounter, FileCounter, render
from bunny_probe.text.calibrated import calibration_messages


def probe(language: str, domain: str, length: int) -> Probe:
    recipe = Recipe(
        "Read this. A question follows.\n\n",
        "\n\nQuestion: What is it?",
        Filler("haystack", language, domain, 3),
        (Insertion("It is 48213.", 0.5),),
    )
    return Probe("length", "single", recipe, Expectation("anchor"), length)


@pytest.mark.parametrize("languages", [("en",), ("zh",), ("en", "zh")])
def test_prompts_come_close_and_say_that_they_are_estimates(
    counter: FileCounter, languages: tuple[str, ...]
) -> None:
    """Three calls a language bring text of that language within a few times the stated error."""
    calibrated = CalibratedCounter.from_calls(counter.chat, languages)
    assert calibrated.calls == 3 * len(languages)
    assert 0.01 <= calibrated.error < 0.2
    assert not calibrated.exact
    for language in languages:
        for domain in ("contract", "operations"):
            rendered = render(probe(language, domain, 4000), calibrated)
            assert not rendered.exact
            assert rendered.intended_tokens == 4000
            assert counter.chat(rendered.messages) == pytest.approx(4000, rel=0.15)


def test_a_linear_truth_is_found_exactly() -> None:
    """Where tokens are a rate times bytes, the estimate is the truth and the error is the least stated."""
    calibrated = CalibratedCounter.from_calls(lambda messages: 20 + len(messages[0].content.encode()) // 4)
    text = "plain words " * 500
    assert calibrated.chat([Message("user", text)]) == pytest.approx(20 + len(text) // 4, abs=3)
    assert calibrated.error == 0.01


def test_calls_that_show_nothing_are_refused() -> None:
    """Too few calls, and counts that do not grow with the text, are usage errors."""
    with pytest.raises(UsageError, match="at least 3 calls"):
        CalibratedCounter([(message, 9) for message in calibration_messages(["en"])[:2]])
    with pytest.raises(UsageError, match="do not grow"):
        CalibratedCounter.from_calls(lambda messages: 10_000 - len(messages[0].content) // 8)
