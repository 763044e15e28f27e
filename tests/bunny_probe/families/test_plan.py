"""Plans: unique ids, the same everywhere, and every fault named when the suite is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bunny_probe import suites
from bunny_probe.errors import SuiteError
from bunny_probe.families import TASKS, check, plan
from bunny_probe.families.base import Parameter, derive_seed
from bunny_probe.scores import SCORERS, scorer_for

PINNED = 3164449199783214


def suite(text: str, folder: Path = Path()) -> suites.Suite:
    return suites.parse(text, folder / "mine.toml")


def entry(family: str, task: str, more: str = "") -> str:
    return f'[[probe]]\nfamily = "{family}"\ntask = "{task}"\n{more}\n'


def test_every_bundled_suite_can_be_planned_with_unique_ids() -> None:
    """Each bundled suite passes its check, no two trials are the same, and scorers take their parameters."""
    for name in suites.bundled():
        trials = plan(suites.load(name))
        keys = {(trial.probe.id, trial.decoding.id, trial.repeat) for trial in trials}
        assert len(keys) == len(trials) > 0, name
        for probe in {trial.probe.id: trial.probe for trial in trials}.values():
            scorer_for(probe.expectation)


def test_ids_are_the_same_in_every_process() -> None:
    """Two processes with different hash seeds plan the same ids, in the same order."""
    code = (
        "import json;from bunny_probe import suites,families;"
        "print(json.dumps([t.probe.id for t in families.plan(suites.load('all-tasks'))]))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0]) == [trial.probe.id for trial in plan(suites.load("all-tasks"))]


def test_seeds_are_pinned() -> None:
    """Seeds come from content, below 2**53, and never change: ids of old runs depend on them."""
    assert derive_seed(20, "length", "single", "en", "contract", 0) == PINNED
    assert derive_seed("a", 1) != derive_seed("a", "1")


def test_repeats_and_answer_lengths_come_from_the_suite() -> None:
    """Each probe is asked `repeats` times; max_tokens is the suite's, else the task's."""
    text = entry("length", "single", "lengths = [512]\nsamples = 2\nrepeats = 3")
    trials = plan(suite(text))
    assert [trial.repeat for trial in trials] == [0, 1, 2, 0, 1, 2]
    assert {trial.decoding.max_tokens for trial in trials} == {TASKS["length", "single"].max_tokens}
    trials = plan(suite(text + "decoding = { max_tokens = 7 }"))
    assert {(t.decoding.max_tokens, t.probe.max_tokens) for t in trials} == {(7, 7)}


def test_probes_of_a_document_stand_together() -> None:
    """Questions about one document follow each other, for the server's prefix cache."""
    clusters = [
        trial.probe.cluster
        for trial in plan(suite(entry("position", "single", "lengths = [512]\nsamples = 5")))
    ]
    changes = sum(a != b for a, b in pairwise(clusters))
    assert changes == 4


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (entry("lenght", "single"), "family", "Did you mean 'length'"),
        (entry("length", "singel"), "task", "Did you mean 'single'"),
        (entry("length", "single", "params = { distractor = 1 }"), "params", "Did you mean 'distractors'"),
        (entry("length", "single", "params = { distractors = 31 }"), "params.distractors", "from 0 to 30"),
        (entry("length", "single", "params = { distractors = 1.5 }"), "params.distractors", "a whole number"),
        (entry("length", "single", "params = { near = 1 }"), "params.near", "true or false"),
        (entry("length", "single", 'params = { value = "cod" }'), "params.value", "'code', 'word'"),
        (entry("length", "several", "depths = [0.5]"), "depths", "does not vary depths"),
        (entry("length", "common_words", 'domains = ["contract"]'), "domains", "does not vary domains"),
        (entry("length", "coded_words", "lengths = [512]"), "lengths", "allowed: 1,024 to 1,048,576"),
        (entry("length", "single", 'languages = ["fr"]'), None, "Choices: en, zh"),
        (entry("length", "single", 'domains = ["law"]'), None, "Choices: contract"),
        (entry("position", "from_end", 'params = { distances = ["a"] }'), "params.distances", "a list, each"),
        (entry("position", "from_end", "params = { distances = 4 }"), "params.distances", "a list, each"),
        (entry("length", "graph", "params = { nodes = 6, edges = 20 }"), "params.edges", "2 to 15"),
        (entry("length", "graph", "params = { nodes = 6, edges = 8, steps = 8 }"), "params.steps", "up to 5"),
        (
            entry(
                "length",
                "several",
                'params = { value = "word", asked = 20, distractors = 30 }\nlanguages = ["zh"]',
            )
            + entry("position", "multi_key", "params = { near = true, keys = 60 }"),
            None,
            "allowed: up to",
        ),
        (
            entry("length", "several", "lengths = [128]\nparams = { asked = 12, distractors = 20 }"),
            "lengths",
            "allowed: ",
        ),
        (entry("length", "single", "lengths = [512]") * 2, None, "asks what mine.toml: probe[1] asks"),
    ],
)
def test_what_cannot_be_asked_is_refused_when_the_suite_is_read(text: str, key: str | None, words: str) -> None:
    """Names, parameters, coordinates and lengths are checked before anything is sent."""
    with pytest.raises(SuiteError) as caught:
        plan(suite(text))
    assert words in str(caught.value)
    if key is not None:
        assert caught.value.key == key
        assert "mine.toml: probe[1]" in str(caught.value)


def test_every_task_names_a_scorer_that_exists_and_says_what_it_is() -> None:
    """Summary and help are written, defaults pass their own check, coordinates are known ones."""
    for task in TASKS.values():
        assert task.scorer in SCORERS
        assert task.summary
        assert set(task.uses) <= {"lengths", "depths", "languages", "domains"}
        for parameter in task.parameters.values():
            assert parameter.help
            assert parameter.allowed
            parameter.check(parameter.default)


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (Parameter(1, "x", low=0, high=5), [0, 5], [-1, 6, 1.0, "1", True, None]),
        (Parameter(1.0, "x", low=0, high=5), [0, 5.0, 2], [-1, 5.1, "1", True, float("nan")]),
        (Parameter("a", "x", choices=("a", "b")), ["a", "b"], ["c", 1, None]),
        (Parameter((1, 2), "x", low=1), [[], [3], (4, 5)], [1, [0], ["a"], [True]]),
        (Parameter((), "x", like=str), [[], ["a"]], ["a", [1]]),
        (Parameter(False, "x"), [True, False], [0, 1, "true"]),
    ],
)
def test_parameters_take_what_they_say(parameter: Parameter, good: list[object], bad: list[object]) -> None:
    """Type, range and choices are kept to, and a refusal says what is allowed."""
    for value in good:
        parameter.check(value)
    for value in bad:
        with pytest.raises(ValueError, match="allowed: "):
            parameter.check(value)


def test_check_passes_what_plan_passes() -> None:
    """`check` alone refuses nothing that can be planned."""
    for name in suites.bundled():
        check(suites.load(name))
