"""A run file: what goes in comes out, nothing is lost, and one process writes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trials import probe, render, trials

from bunny_probe.endpoints import EndpointSpec
from bunny_probe.errors import RunError, RunLocked
from bunny_probe.records import Attempt, Outcome, Score, Timing, TokenTrace, Trial, Usage
from bunny_probe.runs import Store
from bunny_probe.runs.traces import decode_trace, encode_trace, trace_numbers

SPEC = EndpointSpec("http://127.0.0.1:1/v1", "m")
FULL = Attempt(
    Outcome.ANSWERED,
    "finish reason 'stop'",
    text="blé \x00漢🙂",
    reasoning="hm",
    stop_reason="stop",
    status=200,
    error_code="x",
    retry_after=1.5,
    timing=Timing(12.5, -3, -2, 4, 5, 6, 7, 8, 9, 10, True, 11, False, True),
    trace=TokenTrace(
        ("a", "b"), (-0.5, -1.0), ((("a", -0.5), ("c", -2.0)), ()), (8, 9), (b"a", b"\xff"), "logprobs"
    ),
    usage=Usage(10, 2, 3, 4, 0.25, "usage"),
    reported_model="m-1",
    dropped_fields=("seed", "stop"),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def test_an_observation_comes_out_as_it_went_in(path: Path) -> None:
    """Every field of an attempt survives the file, the trace included; None stays None."""
    full, bare = trials(2)
    nothing = Attempt(Outcome.TRANSPORT, "no connection")
    with Store(path) as store:
        store.add_trials([full, bare], SPEC)
        assert store.record(full, SPEC.fingerprint, nothing, render(full.probe), counts=False) == 1
        assert store.record(full, SPEC.fingerprint, FULL, render(full.probe), counts=True) == 2
        store.record(bare, SPEC.fingerprint, nothing, render(bare.probe), counts=True)
    with Store(path, write=False) as store:
        (first_probe, first), (_, second) = store.observations()
        assert first_probe == full.probe
        assert (first.attempt, first.attempts) == (FULL, 2)
        assert first.prompt_hash == render(full.probe).prompt_hash
        assert first.decoding == full.decoding
        assert second.attempt == nothing
        key = (full.probe.id, SPEC.fingerprint, full.decoding.id, 0)
        assert store.attempts(*key) == [nothing, FULL]
        assert list(store.probes()) == sorted((full.probe, bare.probe), key=lambda item: item.id)


def test_a_plan_is_added_once(path: Path) -> None:
    """The same trials again are no new ones; another endpoint has its own."""
    plan = trials(3, repeats=2)
    with Store(path) as store:
        assert store.add_trials(plan, SPEC) == 6
        assert store.add_trials(plan, SPEC) == 0
        assert store.add_trials(plan, replace(SPEC, model="other")) == 6
        assert store.pending(plan, SPEC.fingerprint) == plan


def test_what_is_settled_is_not_pending_and_what_failed_in_passing_is(path: Path) -> None:
    """Answers and final refusals are settled; transient failures and a refused key are asked again."""
    outcomes = list(Outcome)
    plan = trials(len(outcomes))
    with Store(path) as store:
        store.add_trials(plan, SPEC)
        for trial, outcome in zip(plan, outcomes, strict=True):
            store.record(trial, SPEC.fingerprint, Attempt(outcome, "x"), render(trial.probe), counts=True)
        again = {outcomes[plan.index(trial)] for trial in store.pending(plan, SPEC.fingerprint)}
        assert again == {o for o in Outcome if o.transient} | {Outcome.UNAUTHORISED, Outcome.NOT_FOUND}
        wanted = store.pending(plan, SPEC.fingerprint, again=[Outcome.CONTEXT_REFUSED])
        assert [outcomes[plan.index(trial)] for trial in wanted] == [Outcome.CONTEXT_REFUSED]


def test_scores_belong_to_the_observation_they_judged(path: Path) -> None:
    """A new observation drops the scores of the old one; unscored observations are found by scorer."""
    plan = trials(2)
    with Store(path) as store:
        store.add_trials(plan, SPEC)
        for trial in plan:
            store.record(trial, SPEC.fingerprint, FULL, render(trial.probe), counts=True)
        judged = [(seen, Score("anchor", 1.0, "hit", "found", {"at": [1]})) for _, seen in store.observations()]
        store.save_scores(judged[:1])
        assert len(list(store.observations(without_scorer=""))) == 1
        assert len(list(store.observations(without_scorer="entities"))) == 2
        store.record(plan[0], SPEC.fingerprint, FULL, render(plan[0].probe), counts=True)
        assert len(list(store.observations(without_scorer="anchor"))) == 2


def test_probes_with_half_a_surrogate_pair_can_be_kept(path: Path) -> None:
    """An edge input that is no valid Unicode is stored and comes back the same."""
    odd = probe(1)
    odd = replace(odd, recipe=replace(odd.recipe, head="x\ud800y"), id="")
    attempt = Attempt(Outcome.BAD_REQUEST, "said \ud800", text="z\udc00")
    with Store(path) as store:
        store.add_trials([Trial(odd, trials(1)[0].decoding)], SPEC)
        assert list(store.probes()) == [odd]
        store.record(
            Trial(odd, trials(1)[0].decoding), SPEC.fingerprint, attempt, render(probe(1)), counts=True
        )
        assert next(store.observations())[1].attempt.text == "z?"


def test_meta_suites_and_endpoints_are_kept(path: Path) -> None:
    """Key/value metadata, suite texts and endpoint specs come back; no prompt is in the file."""
    plan = trials(1, words=3000)
    with Store(path) as store:
        store.set_meta("environment", {"gpu": None, "n": 1})
        store.save_suite("quick", "[suite]\n")
        store.add_trials(plan, SPEC)
        store.record(plan[0], SPEC.fingerprint, FULL, render(plan[0].probe), counts=True)
        assert store.meta("environment") == {"gpu": None, "n": 1}
        assert store.meta("nothing") is None
        assert set(store.meta()) == {"created", "environment"}
        assert store.suites() == {"quick": "[suite]\n"}
        known = store.endpoints()[SPEC.fingerprint]
        assert (known["name"], known["model"], known["spec"]["url"]) == (SPEC.name, "m", SPEC.url)
        assert store.counts() == {"trials": 1, "attempts": 1, "observations": 1, "unasked": 0, "answered": 1}


def test_a_second_writer_is_refused_and_readers_are_not(path: Path) -> None:
    """Another process cannot write, is told who does, and can read all the while."""
    write = f"from bunny_probe.runs import Store; Store({str(path)!r})"
    read = f"from bunny_probe.runs import Store; print(Store({str(path)!r}, write=False).counts()['trials'])"
    with Store(path) as store:
        store.add_trials(trials(2), SPEC)
        with pytest.raises(RunLocked, match=f"process {os.getpid()}"):
            Store(path)
        refused = subprocess.run([sys.executable, "-c", write], capture_output=True, text=True)
        assert refused.returncode
        assert f"RunLocked: {path} is being written by process {os.getpid()}" in refused.stderr
        assert subprocess.run([sys.executable, "-c", read], capture_output=True, text=True).stdout == "2\n"
        with Store(path, write=False) as reader, pytest.raises(RunError, match="reading only"):
            reader.set_meta("x", 1)
    Store(path).close()


def test_a_killed_writer_leaves_no_lock(path: Path) -> None:
    """SIGKILL releases the lock with the process."""
    hold = f"from bunny_probe.runs import Store; s = Store({str(path)!r}); print('held', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(RunLocked, match=f"process {child.pid}"):
            Store(path)
        child.kill()
    Store(path).close()


@pytest.mark.parametrize(
    "content",
    [b"not a database at all, but long enough to be one " * 9, b"SQLite format 3\x00" + b"\x01" * 900],
)
def test_a_file_that_is_no_run_is_refused(path: Path, content: bytes) -> None:
    """Other files are refused with their name, and left as they are."""
    path.write_bytes(content)
    for write in (True, False):
        with pytest.raises(RunError, match=r"run\.db"):
            Store(path, write=write)
    assert path.read_bytes() == content


def test_another_database_and_another_version_are_refused(path: Path) -> None:
    """A foreign SQLite file is not written into; a run of another format says which."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    with pytest.raises(RunError, match="not a run"):
        Store(path)
    path.unlink()
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(RunError, match="format 99"):
        Store(path, write=False)


def test_a_missing_run_is_not_made_by_reading(path: Path) -> None:
    """Reading a path where nothing is says so and makes nothing."""
    with pytest.raises(RunError, match="no run file"):
        Store(path, write=False)
    assert not path.exists()


def test_an_empty_file_is_no_run_but_may_become_one(path: Path) -> None:
    """0 bytes are no run without observations: reading and scoring refuse them and name the way out; asking
    begins one there."""
    path.touch()
    for options in ({"write": False}, {"create": False}):
        with pytest.raises(RunError, match=r"run\.db is empty \(0 bytes\).*bunny-probe run"):
            Store(path, **options)
        assert path.stat().st_size == 0
    with Store(path) as store:
        assert store.counts()["trials"] == 0


def test_the_run_is_flushed_for_every_attempt(path: Path) -> None:
    """The file is in write-ahead mode with full synchronisation: durable when `record` returns."""
    with Store(path) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2


# ── traces ──────────────────────────────────────────────────────────────────────────────────────────

_NUMBER = st.floats(width=32, allow_nan=False)


@st.composite
def traces(draw: st.DrawFn) -> TokenTrace:
    text = draw(st.lists(st.text(max_size=4), max_size=12))
    size = len(text)
    column = st.lists(_NUMBER, min_size=size, max_size=size)
    alternatives = st.lists(st.tuples(st.text(max_size=3), _NUMBER), max_size=5).map(tuple)
    full = size > 0
    return TokenTrace(
        text=tuple(text),
        logprob=tuple(draw(column)) if full and draw(st.booleans()) else (),
        top=tuple(draw(st.lists(alternatives, min_size=size, max_size=size)))
        if full and draw(st.booleans())
        else (),
        arrival=tuple(sorted(draw(st.lists(st.integers(-(2**40), 2**60), min_size=size, max_size=size)))),
        bytes_=tuple(draw(st.lists(st.binary(max_size=4), min_size=size, max_size=size)))
        if draw(st.booleans())
        else (),
        source=draw(st.sampled_from(["logprobs", "chunks"])) if full else "none",
    )


@given(traces())
def test_traces_survive_their_encoding(trace: TokenTrace) -> None:
    """Decoding undoes encoding, for every trace whose log-probabilities are 32-bit numbers."""
    blob = encode_trace(trace)
    assert decode_trace(blob) == trace
    if blob is not None:
        numbers = trace_numbers(blob)
        assert tuple(numbers.arrival) == trace.arrival
        assert tuple(numbers.logprob) == trace.logprob


@given(traces(), st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_trace_is_told(trace: TokenTrace, place: int, byte: int) -> None:
    """A changed byte gives a RunError or a trace, never another exception."""
    blob = bytearray(encode_trace(trace) or b"x")
    blob[place % len(blob)] = byte
    for read in (decode_trace, trace_numbers):
        with suppress(RunError):
            read(bytes(blob))


def test_a_run_of_the_format_before_is_brought_to_this_one(path: Path) -> None:
    """Opened for writing it gains what is new and loses nothing; only read, it says how."""
    with Store(path) as store:
        store.add_trials(trials(3), SPEC)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("ALTER TABLE attempts DROP COLUMN in_flight; PRAGMA user_version = 1;")
    with pytest.raises(RunError, match="format before"):
        Store(path, write=False)
    with Store(path) as store:
        assert store.counts()["trials"] == 3
    Store(path, write=False).close()
