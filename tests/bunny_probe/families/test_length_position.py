"""Every length and position task from both sides: one who reads and knows the rules is always right, one who
guesses scores what chance predicts. The oracles see the prompt alone."""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bunny_probe import suites
from bunny_probe.errors import LengthError, SuiteError
from bunny_probe.families import TASKS
from bunny_probe.families.base import Parameter
from bunny_probe.families.length_links import frontier, hops
from bunny_probe.records import Attempt, Message, Observation, Outcome, Probe
from bunny_probe.scores import score
from bunny_probe.suites import Entry
from bunny_probe.text import Rng, render
from bunny_probe.text.wording import wording

MINE = [key for key in TASKS if key[0] in ("length", "position")]
LANGUAGES = ("en", "zh")


class Words:
    """A counter of a tokenizer so simple that it is right by inspection: a word, a sign, a CJK character."""

    fingerprint = "words"
    exact = True
    additive = True
    verify_below = 0
    guard = 0

    def counts(self, texts: Sequence[str]) -> list[int]:
        return [len(re.findall(r"[⺀-鿿]|[A-Za-z0-9]+|[^\sA-Za-z0-9⺀-鿿]", text)) for text in texts]

    following = counts

    def chat(self, messages: Sequence[Message]) -> int:
        return 5 + sum(self.counts([m.content for m in messages]))


WORDS = Words()


def probes_of(family: str, name: str, language: str, samples: int = 4, **params: object) -> list[Probe]:
    task = TASKS[family, name]
    uses = task.uses
    entry = Entry(
        family=family,
        task=name,
        lengths=(2000,) if "lengths" in uses else (),
        depths=(0.1, 0.6, 1.0) if "depths" in uses else (),
        languages=(language,),
        samples=samples,
        seed=11,
        params=params,
        where="test",
    )
    return list(task.build(entry))


def scored(probe: Probe, text: str) -> float:
    observation = Observation(
        probe.id, "e", suites.Decoding(), 0, Attempt(Outcome.ANSWERED, "", text=text), 1, "", None
    )
    value = score(probe, observation).value
    assert value is not None
    return value


# ── oracles: (document, question, language) → answer ────────────────────────────────────────────────


def pattern(template: str) -> re.Pattern[str]:
    """A template as a pattern: each field a group; a field that returns must be the same."""
    parts, seen = [], set()
    for text, name in re.findall(r"([^{]*)(?:\{(\w+)\})?", template):
        parts.append(re.escape(text))
        if name:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>[^.。；;？?：，\n]+?)")
            seen.add(name)
    return re.compile("".join(parts))


def find(template: str, text: str) -> list[dict[str, str]]:
    found = pattern(template).finditer(text)
    return [{name: field.strip() for name, field in match.groupdict().items()} for match in found]


def kind_of(question: str, language: str) -> str:
    for kind in ("code", "word", "uuid", "sentence"):
        if pattern(wording(language, kind)["question"]).search(question):
            return kind
    raise AssertionError(question)


def one_fact(document: str, question: str, language: str) -> str:
    words = wording(language, kind_of(question, language))
    key = find(words["question"], question)[0]["key"]
    (value,) = [fact["value"] for fact in find(words["plant"], document) if fact["key"] == key]
    return value


def many_facts(document: str, question: str, language: str) -> str:
    words = wording(language, "several")
    for kind in ("code", "word", "uuid", "sentence"):
        asked = re.search(re.escape(words[kind]).replace(r"\{keys\}", "(.+?)"), question)
        if asked:
            keys = asked[1].split(words["comma"].strip() or words["comma"])
            facts = {f["key"]: f["value"] for f in find(wording(language, kind)["plant"], document)}
            return "\n".join(facts[key.strip()] for key in keys)
    raise AssertionError(question)


def all_values(document: str, question: str, language: str) -> str:
    for kind in ("code", "word", "uuid", "sentence"):
        words = wording(language, kind)
        asked = find(words["all_of"], question)
        if asked:
            key = asked[0]["key"]
            return ", ".join(f["value"] for f in find(words["one_of"], document) if f["key"] == key)
    raise AssertionError(question)


def commonest(document: str, question: str, language: str) -> str:
    count = int(re.findall(r"\d+", question)[0])
    body = document.split("\n\n", 1)[1]
    tally = Tally(re.findall(r"[a-z]+|[一-鿿]+", body))
    leading = tally.most_common(count + 1)
    assert leading[count - 1][1] > leading[count][1], "the question has no sure answer"
    return ", ".join(word for word, _ in leading[:count])


def chained(document: str, question: str, language: str) -> str:
    words = wording(language, "variables")
    value = find(words["question"], question)[0]["value"]
    holding = [v["name"] for v in find(words["set"], document) if v["value"] == value]
    copies = find(words["copy"], document)
    for _ in copies:
        holding += [v["name"] for v in copies if v["other"] in holding and v["name"] not in holding]
    return ", ".join(holding)


def last_place(document: str, question: str, language: str) -> str:
    words = wording(language, "state")
    thing = find(words["question"], question)[0]["thing"]
    moves = [m for m in find(words["move"], document) if m["thing"] == thing]
    return moves[-1]["place"]


def founder(document: str, question: str, language: str) -> str:
    words = wording(language, "multi_document")
    for kind in words["kinds"]:
        asked = find(words["question"].replace("{kind}", kind), question)
        if asked:
            key = asked[0]["key"]
            stem = words["passage"].replace("{kind}", kind).replace("{key}", key)
            (value,) = [f["value"] for f in find(stem, document)]
            return value
    raise AssertionError(question)


def nth_reply(document: str, question: str, language: str) -> str:
    words = wording(language, "turns")
    for nth, name in enumerate(words["ordinals"]):
        asked = find(words["question"].replace("{nth}", name), question)
        if asked:
            replies = find(words["turn"].replace("{key}", asked[0]["key"]), document)
            return replies[nth]["value"]
    raise AssertionError(question)


def walked(document: str, question: str, language: str) -> str:
    words = wording(language, "graph")
    asked = find(words["question"], question)[0]
    edges = [(e["start"], e["end"]) for e in find(words["edge"], document)]
    return ", ".join(frontier(edges, asked["start"], int(asked["steps"])))


def clause_sum(document: str, question: str, language: str) -> str:
    words = wording(language, "clauses")
    key = find(words["question"], question)[0]["key"]
    loose = {
        k: v.replace("{a}", "{a}.{a2}").replace("{b}", "{b}.{b2}").replace("{c}", "{c}.{c2}")
        for k, v in words.items()
    }
    (defer,) = [d for d in find(loose["defer"], document) if d["key"] == key]
    (amend,) = [a for a in find(loose["amend"], document) if (a["b"], a["b2"]) == (defer["b"], defer["b2"])]
    (base,) = [c for c in find(loose["base"], document) if (c["c"], c["c2"]) == (amend["c"], amend["c2"])]
    return str(int(base["days"]) + int(amend["extra"]))


def all_people(document: str, question: str, language: str) -> str:
    words = wording(language, "summary")
    key = find(words["question"], question)[0]["key"]
    named = []
    for role in words["roles"]:
        named += [
            e["person"] for e in find(words["event"].replace("{role}", role).replace("{key}", key), document)
        ]
    lead = re.compile(r".*[.。：]\s*", re.DOTALL)
    return ", ".join(lead.sub("", name).strip() for name in named)


def linked(document: str, question: str, language: str) -> str:
    table = hops(language)
    (wanted,) = [hop["fact"] for hop in table["hops"] if hop["question"] in question]
    (match,) = re.findall(r"(\S+ \S+|[⺀-鿿]{3,5}) ?" + re.escape(wanted), document)
    return str(match).removeprefix("。")


ORACLES: dict[tuple[str, str], Callable[[str, str, str], str]] = {
    ("length", "single"): one_fact,
    ("length", "several"): many_facts,
    ("length", "common_words"): commonest,
    ("length", "coded_words"): commonest,
    ("length", "variables"): chained,
    ("length", "state"): last_place,
    ("length", "multi_document"): founder,
    ("length", "turns"): nth_reply,
    ("length", "graph"): walked,
    ("length", "clauses"): clause_sum,
    ("length", "summary"): all_people,
    ("length", "latent_hop"): linked,
    ("position", "single"): one_fact,
    ("position", "multi_key"): one_fact,
    ("position", "multi_value"): all_values,
    ("position", "multi_query"): many_facts,
    ("position", "from_end"): one_fact,
}

FORMS: list[tuple[str, str, dict[str, object]]] = [
    *((family, name, {}) for family, name in MINE),
    *(("position", "single", {"value": v, "rotations": 2}) for v in ("word", "uuid", "sentence")),
    *(("position", "multi_value", {"value": v}) for v in ("word", "uuid", "sentence")),
    *(("position", "multi_query", {"value": v}) for v in ("word", "uuid", "sentence")),
    ("position", "multi_key", {"near": True, "keys": 12}),
    ("length", "single", {"near": True, "distractors": 9}),
    ("length", "several", {"asked": 6, "distractors": 6, "value": "word"}),
    ("length", "variables", {"hops": 1, "chains": 4}),
    ("length", "state", {"moves": 1, "things": 1}),
    ("length", "turns", {"alike": 10, "ask": [10, 2]}),
    ("length", "graph", {"nodes": 6, "edges": 6, "steps": 1}),
    ("length", "graph", {"nodes": 30, "edges": 40, "steps": 4}),
    ("length", "clauses", {"decoys": 10}),
    ("length", "latent_hop", {"distractors": 0}),
]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("family", "name", "params"), FORMS)
def test_an_oracle_that_reads_the_prompt_is_always_right(
    family: str, name: str, params: dict[str, object], language: str
) -> None:
    """Whoever reads the prompt and knows the rules scores 1.0 on every probe."""
    for probe in probes_of(family, name, language, **params):
        content = render(probe, WORDS).messages[-1].content
        question = probe.recipe.tail
        answer = ORACLES[family, name](content.removesuffix(question), question, language)
        assert scored(probe, answer) == 1.0, (answer, probe.expectation)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("family", "name"), MINE)
def test_guessing_scores_what_chance_predicts(family: str, name: str, language: str) -> None:
    """A guess among what stands in the prompt, or out of thin air where chance is 0, scores `chance`."""
    rng = Rng(5)
    excess = []
    for probe in probes_of(family, name, language, samples=10):
        expectation = probe.expectation
        for _ in range(4):
            if expectation.chance == 0:
                answer = rng.pattern("^####") if expectation.scorer != "number" else str(rng.between(1, 400))
            else:
                values = [*expectation.answers, *expectation.distractors]
                count = len(expectation.answers) if expectation.scorer == "items" else 1
                answer = ", ".join(rng.sample(values, count))
            excess.append(scored(probe, answer) - expectation.chance)
    error = stdev(excess) / len(excess) ** 0.5
    assert abs(fmean(excess)) <= max(4 * error, 0.02)


@pytest.mark.parametrize(("family", "name"), MINE)
def test_a_task_is_pure_and_its_ids_are_unique(family: str, name: str) -> None:
    """Building twice gives the same ids, all different; what the task says of its scorer is true."""
    first = [probe.id for language in LANGUAGES for probe in probes_of(family, name, language)]
    again = [probe.id for language in LANGUAGES for probe in probes_of(family, name, language)]
    assert first == again
    assert len(set(first)) == len(first)
    assert {p.expectation.scorer for p in probes_of(family, name, "en")} == {TASKS[family, name].scorer}


@pytest.mark.parametrize(("family", "name"), MINE)
def test_the_answer_stands_in_the_prompt_once(family: str, name: str) -> None:
    """Wrong values are other ones, and nothing that is wrong contains what is right."""
    for probe in probes_of(family, name, "en"):
        expectation = probe.expectation
        assert expectation.answers
        assert not set(expectation.answers) & set(expectation.distractors)
        assert len(set(expectation.distractors)) == len(expectation.distractors)


def test_rotations_bring_each_anchor_to_each_depth() -> None:
    """Paired design: over all rotations every fact is asked at every depth exactly once."""
    depths = (0.1, 0.6, 1.0)
    found = probes_of("position", "single", "en", samples=1, rotations=3)
    asked = [(a.key, a.depth) for probe in found for a in probe.anchors if a.asked]
    keys = {key for key, _ in asked}
    assert sorted(asked) == sorted((key, depth) for key in keys for depth in depths)
    assert len({probe.cluster for probe in found}) == 1


def test_hard_distractors_share_the_first_word_of_the_key() -> None:
    """Near keys differ in one word only."""
    (probe, *_) = probes_of("position", "multi_key", "en", near=True, keys=5)
    assert len({anchor.key.split()[0] for anchor in probe.anchors}) == 1
    assert len({anchor.key for anchor in probe.anchors}) == 6


def test_a_longer_document_only_goes_on() -> None:
    """The same sample at another length has the same facts and begins with the same text."""
    task = TASKS["length", "single"]
    entry = Entry("length", "single", lengths=(1000, 3000), depths=(1.0,), samples=1, where="test")
    short, long = task.build(entry)
    assert short.cluster == long.cluster
    texts = [render(probe, WORDS).messages[0].content for probe in (short, long)]
    assert texts[0][:2500] == texts[1][:2500]


def _params(draw: st.DrawFn, parameters: Mapping[str, Parameter]) -> dict[str, object]:
    chosen: dict[str, object] = {}
    for name, parameter in parameters.items():
        if not draw(st.booleans()):
            continue
        if parameter.choices:
            chosen[name] = draw(st.sampled_from(parameter.choices))
        elif isinstance(parameter.default, bool):
            chosen[name] = draw(st.booleans())
        elif isinstance(parameter.default, int):
            low, high = int(parameter.low or 0), int(parameter.high or 9)
            chosen[name] = draw(st.one_of(st.integers(low, min(high, low + 6)), st.just(high)))
        else:
            items = st.integers(int(parameter.low or 0), min(int(parameter.high or 9), 3000))
            chosen[name] = draw(st.lists(items, max_size=4, unique=True))
    return chosen


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Any entry that the parameters' own ranges allow."""
    key = draw(st.sampled_from(MINE))
    uses = TASKS[key].uses
    depths = st.lists(st.floats(0, 1), max_size=6, unique=True)
    return Entry(
        *key,
        lengths=(draw(st.integers(1024, 6000)),) if "lengths" in uses else (),
        depths=tuple(draw(depths)) if "depths" in uses else (),
        languages=(draw(st.sampled_from(LANGUAGES)),),
        seed=draw(st.integers(0, 2**53 - 1)),
        params=_params(draw, TASKS[key].parameters),
        where="fuzz",
    )


@settings(max_examples=60, deadline=None)
@given(entries())
def test_any_entry_within_its_ranges_is_built_exactly_or_refused(entry: Entry) -> None:
    """No combination of allowed values ends in anything but exact prompts, a SuiteError or a LengthError."""
    try:
        for probe in TASKS[entry.family, entry.task].build(entry):
            assert WORDS.chat(render(probe, WORDS).messages) == probe.length_tokens
    except (SuiteError, LengthError) as error:
        assert "allowed" in str(error) or "fixed parts" in str(error)  # noqa: PT017
