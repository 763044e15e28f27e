"""The stress family from both sides: an oracle that knows the rules, and answers at random."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bunny_probe.errors import SuiteError
from bunny_probe.families import TASKS, find_task, probes
from bunny_probe.families.stress_bank import bank, languages
from bunny_probe.families.stress_edges import KINDS as EDGES
from bunny_probe.families.stress_format import catalogue
from bunny_probe.families.stress_perturb import KINDS, perturb
from bunny_probe.records import Attempt, Decoding, Observation, Outcome, Probe, Score
from bunny_probe.scores import score
from bunny_probe.scores.formats import CHECKERS
from bunny_probe.suites import Entry

STRESS = sorted(name for family, name in TASKS if family == "stress")


def entry(task: str, language: str = "en", samples: int = 8, **params: object) -> Entry:
    return Entry("stress", task, languages=(language,), samples=samples, seed=11, params=params)


def judged(probe: Probe, text: str) -> Score:
    attempt = Attempt(Outcome.ANSWERED, "", text)
    return score(probe, Observation(probe.id, "e", Decoding(), 0, attempt, 1, "", None))


def prompt(probe: Probe) -> str:
    return probe.recipe.head + "".join(i.text for i in probe.recipe.insertions) + probe.recipe.tail


def oracle(probe: Probe) -> str:
    """What somebody answers who reads the prompt and knows the task's rules, but not the expectation."""
    text = prompt(probe)
    language = bank(probe.language, "common")
    if probe.task == "conflict":
        return _settle(probe, text)
    if probe.task == "format":
        return catalogue(probe.language)[probe.variant.split("/")[1]].passing
    if probe.task == "negation":
        sets = bank(probe.language, "negation")["set"]
        item = next(item for item in sets if item["task"] in text)
        rest = text.split(item["task"])[1]
        named = [m for m in item["members"] if m.split("|")[0] in rest]
        kept = [m for m in item["members"] if probe.variant == "with" or m not in named]
        return "、".join(m.split("|")[0] for m in kept)
    if probe.task == "edges" and probe.variant == "blank":
        return {"en": "not stated", "zh": "未说明"}[probe.language]
    clean = re.sub("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\u00ad\ufeff]", "", text)
    asked = next(a for a in probe.anchors if a.asked)
    lines = [clean.index(a.key) for a in probe.anchors if a.key in clean] if probe.task == "edges" else [0]
    assert lines, "the key stands in the prompt"
    if probe.task == "edges":
        found = re.findall(r"[A-Z]{2}-\d{4}", clean[clean.index(asked.key) :])
        return str(found[0])
    assert language["head"] in text
    return asked.value


def _settle(probe: Probe, text: str) -> str:
    scenarios = bank(probe.language, "conflict")["conflict"]
    for item in scenarios:
        if item["rule"] in text:
            pattern = re.escape(item["winner"]).replace(r"\{value\}", r"(\w+?)")
            found = re.search(pattern, text)
            assert found is not None
            return found[1]
    said = []
    for template in (text for item in scenarios for text in item["plain"]):
        said += re.findall(re.escape(template).replace(r"\{value\}", r"(\w+?)"), text)
    if len(set(said)) == 1:
        return str(said[0])
    return {"en": "The document contradicts itself.", "zh": "文件自相矛盾。"}[probe.language]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("task", STRESS)
def test_the_oracle_is_always_right(task: str, language: str) -> None:
    """Somebody who reads the prompt and knows the rules scores 1.0 on every probe."""
    for probe in probes(entry(task, language)):
        result = judged(probe, oracle(probe))
        assert result.value == 1.0, (probe.variant, oracle(probe), result.reason)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("task", STRESS)
def test_chance_is_what_random_answers_score(task: str, language: str) -> None:
    """Answers drawn at random score what the probes state as chance, on the average."""
    rng = random.Random(5)
    generic = bank(language, "common")["generic"]
    scores, chances = [], []
    for probe in probes(entry(task, language, samples={"conflict": 60, "format": 1}.get(task, 8))):
        if task == "conflict" and probe.variant.startswith("rule"):
            texts = [rng.choice(probe.expectation.params[k].split("|")) for k in ("first", "last")]
            answers = [rng.choice(texts)]
        else:
            answers = generic
        scores += [judged(probe, text).value or 0.0 for text in answers]
        chances += [probe.expectation.chance] * len(answers)
    assert abs(sum(scores) / len(scores) - sum(chances) / len(chances)) < 0.06


@pytest.mark.parametrize("task", STRESS)
def test_ids_are_unique_and_stable(task: str) -> None:
    """The same entry gives the same probes; no two are the same; lengths and variants are told."""
    once = list(probes(entry(task)))
    assert [p.id for p in once] == [p.id for p in probes(entry(task))]
    assert len({p.id for p in once}) == len(once)
    assert all(p.variant and p.cluster for p in once)
    assert all(p.length_tokens is None for p in once)


@pytest.mark.parametrize("task", ["conflict", "edges", "format", "negation"])
def test_lengths_are_honoured(task: str) -> None:
    """With a length the stress stands in haystack of the domain, at depths."""
    wanted = Entry("stress", task, lengths=(2048,), domains=("contract",), samples=1)
    for probe in probes(wanted):
        assert probe.length_tokens == 2048
        assert probe.recipe.filler is not None
        assert probe.recipe.filler.domain == "contract"


def test_each_language_has_every_bank() -> None:
    """A language that the stress family knows has all of its banks and at least 200 format instructions."""
    assert {"en", "zh"} <= set(languages())
    for language in languages():
        for name in ("common", "conflict", "negation", "words"):
            assert bank(language, name)
        assert len(catalogue(language)) >= 200


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_instruction_is_judged_from_both_sides(language: str) -> None:
    """Each format instruction's passing example passes, its failing one fails, and its text is sound."""
    texts = set()
    for instruction in catalogue(language).values():
        assert instruction.holds(instruction.passing), instruction.id
        assert not instruction.holds(instruction.failing), instruction.id
        assert "{{" not in instruction.text, instruction.id
        texts.add(instruction.text)
    assert len(texts) == len(catalogue(language))


def test_every_checker_is_used() -> None:
    """No format checker is without an instruction that asks for it."""
    used = {rule["checker"] for i in catalogue("en").values() for rule in ({"checker": i.checker}, *i.also)}
    used |= {i.checker for i in catalogue("zh").values()}
    assert set(CHECKERS) - used <= set()


def test_edges_hold_their_disturbance() -> None:
    """Ten kinds; each prompt shows what its name says, and grows with `size`."""
    found = {p.variant: p for p in probes(entry("edges", samples=1))}
    assert set(found) == set(EDGES)
    assert len(EDGES) == 10
    assert "\u202e" in prompt(found["invisible"])
    canary = found["hidden_instruction"].expectation.params["canaries"][0]
    assert canary in prompt(found["hidden_instruction"])
    assert judged(found["hidden_instruction"], canary).label == "fail"
    assert not re.search(r"[A-Z]{2}-\d{4}", prompt(found["blank"]))
    large = {p.variant: p for p in probes(entry("edges", samples=1, size=512))}
    for kind in set(EDGES) - {"unfinished", "invisible", "code_json", "hidden_instruction"}:
        assert len(prompt(large[kind])) > 1.3 * len(prompt(found[kind])), kind


def test_both_orders_say_the_same() -> None:
    """The two orders of a conflict hold the same clauses, in the same cluster, the other way round."""
    found = list(probes(entry("conflict", samples=4)))
    found = [probe for probe in found if not probe.variant.startswith("control")]
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert one.cluster == other.cluster
        assert sorted(prompt(one)) == sorted(prompt(other))
        assert one.expectation.params["first"] == other.expectation.params["last"]
        assert one.expectation.answers == other.expectation.answers


TEXTS = {
    "en": "Read the document. The buyer shall pay 12.50 within 30 days. Keep AB-1234 safe! Why? Because.",
    "zh": "请阅读下面的文件，然后回答问题。患者每天应当付款AB-1234。会议在之前12:30开始！为什么？",
}


@given(st.sampled_from(KINDS), st.sampled_from(sorted(TEXTS)), st.integers(0, 2**32))
@settings(deadline=None)
def test_perturbation_is_a_path(kind: str, language: str, seed: int) -> None:
    """0 changes nothing, more intensity changes more, and protected spans are never touched."""
    text = TEXTS[language]

    def at(intensity: float) -> str:
        return perturb(text, kind, intensity, seed=seed, language=language, protected=["AB-1234"])

    assert at(0.0) == text
    assert at(0.7) == at(0.7)
    for intensity in (0.3, 0.7, 1.0):
        assert "AB-1234" in at(intensity)
    if kind != "order":
        assert at(1.0) != text


@given(st.text(max_size=200), st.sampled_from(KINDS), st.sampled_from(["en", "zh"]), st.floats(0, 1))
@settings(deadline=None)
def test_any_text_can_be_perturbed(text: str, kind: str, language: str, intensity: float) -> None:
    """No text breaks a perturbation, and intensity 0 is the identity."""
    perturb(text, kind, intensity, seed=1, language=language)
    assert perturb(text, kind, 0.0, seed=1, language=language) == text


@pytest.mark.parametrize(
    ("task", "params", "message"),
    [
        ("format", {"ids": ["numberd_dot_3"]}, "Did you mean 'numbered_dot_3'"),
        ("format", {"kinds": ["numbers"]}, "unknown kind of a format instruction"),
        ("negation", {"sets": ["season"]}, "Did you mean 'seasons'"),
        ("conflict", {"scenarios": ["paymnt"]}, "Did you mean 'payment'"),
        ("edges", {"kinds": ["blanc"]}, "'blank'"),
        ("edges", {"size": 1}, "from 8 to"),
        ("perturbation", {"intensities": [1.5]}, "from 0.001 to 1"),
    ],
)
def test_bad_parameters_are_named(task: str, params: dict[str, object], message: str) -> None:
    """A misspelt id or a value out of range is refused with what is allowed."""
    with pytest.raises(SuiteError, match=re.escape(message)):
        list(find_task(entry(task)).build(entry(task, **params)))


def test_an_unknown_language_is_refused() -> None:
    """A language without a bank is named, with those there are."""
    with pytest.raises(SuiteError, match=r"unknown .*language.*'fr'"):
        list(probes(entry("negation", "fr")))
