"""Records: identity is content, and JSON gives back what it took."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.records import (
    Anchor,
    Decoding,
    Expectation,
    Filler,
    Insertion,
    Message,
    Outcome,
    Probe,
    Recipe,
    canonical_json,
    from_json,
    to_json,
)

texts = st.text(max_size=20)
anchors = st.builds(Anchor, key=texts, value=texts, text=texts, depth=st.none() | st.floats(0, 1))
recipes = st.builds(
    Recipe,
    head=texts,
    tail=texts,
    filler=st.none() | st.builds(Filler, kind=texts, params=st.dictionaries(texts, st.integers(), max_size=2)),
    insertions=st.lists(st.builds(Insertion, text=texts, depth=st.floats(0, 1)), max_size=2).map(tuple),
    turns=st.lists(st.builds(Message, role=st.just("user"), content=texts), max_size=2).map(tuple),
)
probes = st.builds(
    Probe,
    family=texts,
    task=texts,
    recipe=recipes,
    expectation=st.builds(Expectation, scorer=texts, answers=st.lists(texts, max_size=2).map(tuple)),
    length_tokens=st.none() | st.integers(1, 1 << 20),
    anchors=st.lists(anchors, max_size=2).map(tuple),
    id=st.just(""),
)


@given(probes)
def test_a_probe_survives_json(probe: Probe) -> None:
    """What the store writes is what it reads, to the last field."""
    assert from_json(Probe, json.loads(canonical_json(probe))) == probe


@given(st.builds(Decoding, stop=st.lists(texts, max_size=3).map(tuple)))
def test_a_decoding_survives_json(decoding: Decoding) -> None:
    """Likewise for decodings."""
    assert from_json(Decoding, json.loads(canonical_json(decoding))) == decoding


def _probe(**changes: object) -> Probe:
    base: dict[str, object] = {
        "family": "length",
        "task": "single",
        "recipe": Recipe(head="h", tail="t", filler=Filler("haystack")),
        "expectation": Expectation("anchor", ("A-1",)),
        "length_tokens": 1024,
    }
    return Probe(**{**base, **changes})  # type: ignore[arg-type]


def test_identity_is_content() -> None:
    """The same content has the same id; any change of any field changes it."""
    assert _probe().id == _probe().id
    changes: dict[str, object] = {
        "family": "x",
        "task": "x",
        "recipe": Recipe(head="h", tail="t2"),
        "expectation": Expectation("anchor", ("A-2",)),
        "length_tokens": 1025,
        "depth": 0.5,
        "variant": "x",
        "language": "zh",
        "domain": "x",
        "seed": 1,
        "cluster": "x",
        "max_tokens": 65,
        "anchors": (Anchor("k", "v", "t", 0.5),),
    }
    assert set(changes) == {f.name for f in dataclasses.fields(Probe)} - {"id"}
    ids = {_probe(**{name: value}).id for name, value in changes.items()}
    assert len(ids) == len(changes)
    assert _probe().id not in ids


def test_a_forged_id_is_refused() -> None:
    """A stored probe whose content was changed cannot keep its old id."""
    stored = to_json(_probe())
    stored["length_tokens"] = 2048
    with pytest.raises(ValueError, match="does not match its content"):
        from_json(Probe, stored)


def test_ids_do_not_depend_on_the_hash_seed() -> None:
    """Two processes with different hash seeds agree."""
    code = (
        "from bunny_probe.records import *;"
        "print(Probe('f','t',Recipe('h','t'),Expectation('s',params={'b':1,'a':{'z':2,'y':3}}),None).id)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(told) == 1


def test_only_what_may_pass_is_asked_again() -> None:
    """A refusal of the input is final; trouble on the way is not."""
    assert Outcome.RATE_LIMITED.transient
    assert Outcome.CUT_STREAM.transient
    assert not Outcome.CONTEXT_REFUSED.transient
    assert not Outcome.UNAUTHORISED.transient
    assert not Outcome.ANSWERED.transient
