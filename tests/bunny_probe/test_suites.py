"""Suite files: what is read, and what is refused with which words."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe import suites
from bunny_probe.errors import BunnyError, SuiteError

FILE = Path("mine.toml")
ENTRY = '[[probe]]\nfamily = "length"\ntask = "single"\n'


def test_defaults_reach_every_entry_and_an_entry_overrides_them() -> None:
    """An entry takes what [defaults] says unless it says otherwise, decoding key by key."""
    text = f"""
seed = 9
[defaults]
lengths = [512]
decoding = {{ temperature = 0.5, max_tokens = 12 }}
{ENTRY}
{ENTRY}
lengths = [1024, 2048]
seed = 3
decoding = {{ temperature = 1.0 }}
"""
    first, second = suites.parse(text, FILE).entries
    assert (first.lengths, first.seed, first.decoding.temperature) == ((512,), 9, 0.5)
    assert (second.lengths, second.seed, second.decoding.temperature) == ((1024, 2048), 3, 1.0)
    assert second.max_tokens == second.decoding.max_tokens == 12
    assert second.where == "mine.toml: probe[2]"


@pytest.mark.parametrize(
    ("line", "key", "words"),
    [
        ("lengths = [63]", "probe[1].lengths", "64 to 1,048,576"),
        ("lengths = [1048577]", "probe[1].lengths", "64 to 1,048,576"),
        ("lengths = [512, 512]", "probe[1].lengths", "stands twice"),
        ("lengths = 512", "probe[1].lengths", "not a list"),
        ("lengths = [512.0]", "probe[1].lengths", "a whole number"),
        ("depths = [1.01]", "probe[1].depths", "from 0 to 1"),
        ("depths = [-0.1]", "probe[1].depths", "from 0 to 1"),
        ("depths = [nan]", "probe[1].depths", "from 0 to 1"),
        ("depths = [true]", "probe[1].depths", "from 0 to 1"),
        ('depths = "even:5"', "probe[1].depths", "uniform:N"),
        ('depths = "ends:0"', "probe[1].depths", "from 1 to 101"),
        ("samples = 0", "probe[1].samples", "1 to 100,000"),
        ("repeats = -1", "probe[1].repeats", "1 to 10,000"),
        ("decoding = { temperature = 3 }", "probe[1].decoding.temperature", "0 to 2"),
        ("decoding = { temprature = 1 }", "probe[1].decoding", "Did you mean 'temperature'?"),
        ("lenghts = [512]", "probe[1]", "Did you mean 'lengths'?"),
        ("lengths = []", "probe[1].lengths", "leave it out"),
        ("depths = []", "probe[1].depths", "leave it out"),
        ("domains = []", "probe[1].domains", "leave it out"),
        ("languages = []", "probe[1].languages", "leave it out"),
        ("decoding = {stop = []}", "probe[1].decoding.stop", "is empty"),
        (f"lengths = [0x{'f' * 5000}]", "probe[1].lengths", "that value is not allowed"),
        (f"seed = {'9' * 4000}", "probe[1].seed", "99… is not allowed"),
        ("params = 3", "probe[1].params", "not a table"),
        ("seed = 9007199254740992", "probe[1].seed", "9,007,199,254,740,991"),
    ],
)
def test_each_fault_names_the_file_the_key_and_what_is_allowed(line: str, key: str, words: str) -> None:
    """A message says where the fault is and what may stand there."""
    with pytest.raises(SuiteError) as caught:
        suites.parse(ENTRY + line, FILE)
    assert caught.value.file == "mine.toml"
    assert caught.value.key == key
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "name = 3\n" + ENTRY, "probe = 4", "probe = [1]", "a = [", "[[probe]]"),
        *(f"seed = {'9' * 5000}", f"seed = {'[' * 5000}", "seed = 9999-99-99"),
    ],
)
def test_a_file_without_a_sound_entry_is_refused(text: str) -> None:
    """Empty, malformed and incomplete files end in a SuiteError, never in another exception."""
    with pytest.raises(SuiteError):
        suites.parse(text, FILE)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text, however broken, ends in anything but a suite or a SuiteError."""
    with contextlib.suppress(BunnyError):
        suites.parse(text, FILE)


def test_an_unknown_suite_lists_the_bundled_ones() -> None:
    """A name that is no suite brings the nearest one and all choices; a path says that it is missing."""
    with pytest.raises(SuiteError, match=r"Did you mean 'diagnose-quick'\? Choices: .*all-tasks"):
        suites.load("diagnose-quik")
    with pytest.raises(SuiteError, match="no such file"):
        suites.load("nowhere/mine.toml")


def test_bundled_suites_are_read_by_name() -> None:
    """Every bundled suite is sound."""
    assert {"diagnose-quick", "diagnose-standard", "all-tasks"} <= set(suites.bundled())
    for name in suites.bundled():
        assert suites.load(name).entries


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """A binary file under a suite's name is a SuiteError."""
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(SuiteError, match="UTF-8"):
        suites.load(path)


def test_depths_spread_evenly_or_denser_at_both_ends() -> None:
    """Both kinds run from 0 to 1 and are symmetric; "ends" steps least where it begins and ends."""
    uniform, ends = suites.spread_depths("uniform", 5), suites.spread_depths("ends", 7)
    assert uniform == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert ends[0] == 0.0
    assert ends[-1] == 1.0
    steps = [b - a for a, b in pairwise(ends)]
    assert steps[0] == pytest.approx(steps[-1], abs=2e-4)
    assert steps[0] < min(steps[1:-1])
    assert suites.spread_depths("ends", 1) == (0.5,)
