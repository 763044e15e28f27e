"""The frame: exactly the documented columns, whatever the run holds."""

from __future__ import annotations

import errno
import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from trials import render, trials

from bunny_probe.columns import COLUMNS
from bunny_probe.endpoints import EndpointSpec
from bunny_probe.errors import RunError
from bunny_probe.records import Attempt, Outcome, Score, Timing, TokenTrace, Usage
from bunny_probe.runs import Store, frame, frame_parts, to_parquet

SPEC = EndpointSpec("http://127.0.0.1:1/v1", "m")
HALF = math.log(0.5)


def answered(top: tuple[tuple[tuple[str, float], ...], ...], arrival: tuple[int, ...]) -> Attempt:
    logprob = tuple(row[0][1] for row in top)
    text = tuple(row[0][0] for row in top)
    return Attempt(
        Outcome.ANSWERED,
        "finish reason 'stop'",
        text="".join(text),
        stop_reason="stop",
        status=200,
        timing=Timing(5.0, first_content=arrival[0], end=arrival[-1] + 1_000_000_000, valid=False),
        trace=TokenTrace(text, logprob, top, arrival, (), "logprobs"),
        usage=Usage(30, len(text), 7, None, 0.25, "usage"),
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three observations: one with two tokens, one with nothing, one with chunks alone."""
    plan = trials(3)
    fair = (("a", HALF), ("b", HALF))
    sure = (("c", 0.0),)
    chunks = TokenTrace(("x", "y"), (), (), (10**9, 3 * 10**9), (), "chunks")
    attempts = [
        answered((fair, sure), (2 * 10**9, 5 * 10**9)),
        Attempt(Outcome.TRANSPORT, "no connection"),
        Attempt(Outcome.OUTPUT_BUDGET, "length", text="xy", trace=chunks),
    ]
    with Store(tmp_path / "run.db") as store:
        store.add_trials(plan, SPEC)
        for trial, attempt in zip(plan, attempts, strict=True):
            store.record(trial, SPEC.fingerprint, attempt, render(trial.probe), counts=True)
        first = next(store.observations())[1]
        store.save_scores(
            [(first, Score("anchor", 0.5, "partial", "half")), (first, Score("other", 1.0, "hit", "x"))]
        )
    return tmp_path / "run.db"


def test_columns_and_types_are_the_dictionary(run: Path, tmp_path: Path) -> None:
    """Names, order and types are those of COLUMNS, for a full run, an empty one, several, and none."""
    Store(tmp_path / "empty.db").close()
    for table, rows in ((frame(run), 3), (frame(tmp_path / "empty.db"), 0), (frame(), 0), (frame(run, run), 6)):
        assert len(table) == rows
        assert list(table.columns) == list(COLUMNS)
        assert {name: str(kind) for name, kind in table.dtypes.items()} == {
            name: kind if kind != "string" else str(pd.StringDtype()) for name, (kind, _) in COLUMNS.items()
        }


def test_values_are_what_was_recorded(run: Path) -> None:
    """Seconds, counts, scores and confidence come out as they were measured."""
    row = frame(run).iloc[0]
    assert row["text"] == "ac"
    assert (row["ttft_s"], row["latency_s"], row["gap_p50_s"], row["gap_max_s"]) == (2.0, 6.0, 3.0, 3.0)
    assert not row["timing_valid"]
    assert (row["prompt_tokens"], row["completion_tokens"], row["cached_tokens"], row["cost"]) == (
        30,
        2,
        7,
        0.25,
    )
    assert (row["scorer"], row["score"], row["label"], row["reason"]) == ("anchor", 0.5, "partial", "half")
    assert (row["tokens_traced"], row["mean_logprob"]) == (2, pytest.approx(HALF / 2))
    # Half a nat of log 2 in the first token, none in the second; nothing is unseen, so both bounds agree.
    assert row["first_entropy_low"] == pytest.approx(math.log(2), abs=1e-6)
    assert row["entropy_low"] == pytest.approx(math.log(2) / 2, abs=1e-6)
    assert row["entropy_high"] == pytest.approx(math.log(2) / 2, abs=1e-6)
    assert [name for name, _ in json.loads(row["first_top"])] == ["a", "b"]


def test_what_was_not_seen_is_missing_and_never_zero(run: Path) -> None:
    """A failed exchange has no times, no counts and no score: missing values, not zeros."""
    row = frame(run).iloc[1]
    missing = ["score", "prompt_tokens", "completion_tokens", "cached_tokens", "cost", "ttft_s", "latency_s"]
    missing += [
        "gap_p50_s",
        "tokens_traced",
        "mean_logprob",
        "entropy_low",
        "first_top",
        "started_at",
        "timing_valid",
    ]
    assert all(pd.isna(row[name]) for name in missing)
    assert (row["outcome"], row["answered"]) == ("transport", False)
    assert pd.isna(frame(run).iloc[2]["mean_logprob"])  # chunks are no log-probabilities
    assert frame(run).iloc[2]["gap_p50_s"] == 2.0


def test_parts_and_parquet_hold_the_same_rows(run: Path, tmp_path: Path) -> None:
    """The frame in parts of any size, and through Parquet, is the frame."""
    whole = frame(run)
    pd.testing.assert_frame_equal(pd.concat(frame_parts(run, 2), ignore_index=True), whole)
    assert to_parquet([run, run], tmp_path / "run.parquet") == 6
    back = pd.read_parquet(tmp_path / "run.parquet").astype({k: v for k, (v, _) in COLUMNS.items()})
    pd.testing.assert_frame_equal(back.iloc[:3].reset_index(drop=True), whole)


def test_parts_take_bounded_memory(tmp_path: Path) -> None:
    """Going through a run in parts holds a part, not the run."""
    plan = trials(150, words=2)
    top = tuple((("tok", HALF), ("other", HALF)) for _ in range(32))
    attempt = answered(top, tuple(range(10**9, 10**9 + 32)))
    with Store(tmp_path / "run.db") as store:
        store.add_trials(plan, SPEC)
        store._db.execute("PRAGMA synchronous = OFF")  # only the reading is looked at here
        for trial in plan:
            store.record(trial, SPEC.fingerprint, attempt, render(trial.probe), counts=True)
    frame(tmp_path / "run.db")  # imports, and whatever else only the first time takes
    peaks = []
    for rows in (10, 150):
        tracemalloc.start()
        total = sum(len(part) for part in frame_parts(tmp_path / "run.db", rows))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == 150
    assert peaks[0] < peaks[1] / 3


def test_a_path_that_is_no_run_is_told(tmp_path: Path) -> None:
    """A missing file and a foreign one are named."""
    with pytest.raises(RunError, match="no run file"):
        frame(tmp_path / "none.db")
    (tmp_path / "text").write_text("hello" * 100)
    with pytest.raises(RunError, match="text"):
        frame(tmp_path / "text")


def test_a_disk_that_is_full_names_the_file_and_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of the Parquet library name nothing."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file")

    Store(tmp_path / "run.db").close()
    monkeypatch.setattr("bunny_probe.runs.frames.frame_parts", full)
    with pytest.raises(RunError, match=r"o\.parquet cannot be written: .*Error writing bytes"):
        to_parquet([tmp_path / "run.db"], tmp_path / "o.parquet")
    assert not list(tmp_path.glob("*.parquet*"))


def test_entropies_of_ragged_alternatives_are_each_tokens_own(tmp_path: Path) -> None:
    """Answers with different numbers of alternatives in one part do not leak into each other."""
    rng = np.random.default_rng(0)
    plan, attempts = trials(40), []
    for _ in plan:
        rows = []
        for _ in range(rng.integers(1, 9)):
            shares = np.sort(rng.dirichlet(np.ones(rng.integers(2, 7))))[::-1][: rng.integers(1, 6)]
            rows.append(tuple((f"t{i}", float(np.float32(np.log(p)))) for i, p in enumerate(shares)))
        attempts.append(answered(tuple(rows), tuple(range(10**9, 10**9 + len(rows)))))
    with Store(tmp_path / "run.db") as store:
        store.add_trials(plan, SPEC)
        for trial, attempt in zip(plan, attempts, strict=True):
            store.record(trial, SPEC.fingerprint, attempt, render(trial.probe), counts=True)
    table = frame(tmp_path / "run.db")
    for (_, row), attempt in zip(table.iterrows(), attempts, strict=True):
        lows = []
        for alternatives in attempt.trace.top:
            p = np.exp([value for _, value in alternatives])
            rest = 1 - p.sum()
            lows.append(-(p * np.log(p)).sum() - (rest * np.log(rest) if rest > 1e-9 else 0))
        assert row["entropy_low"] == pytest.approx(np.mean(lows), abs=1e-4)
        assert row["first_entropy_low"] == pytest.approx(lows[0], abs=1e-4)
        assert row["entropy_high"] >= row["entropy_low"]


def test_paces_are_by_the_servers_own_count(tmp_path: Path) -> None:
    """Time a token and tokens a chunk by usage, times from the clock, what was in flight; else missing."""
    plan = trials(3)
    chunks = TokenTrace(("a", "b", "c"), arrival=(10**9, 2 * 10**9, 3 * 10**9), source="chunks")
    timing = Timing(
        5.0, scheduled=-(10**9), first_reasoning=5 * 10**8, first_content=10**9, last_content=3 * 10**9,
        end=4 * 10**9, client_lag=10**6,
    )  # fmt: skip
    full = Attempt(
        Outcome.ANSWERED, "stop", text="abc", timing=timing, trace=chunks, reported_model="m-7",
        usage=Usage(30, 14, reasoning_tokens=5, source="usage"),
    )  # fmt: skip
    bare = Attempt(
        Outcome.ANSWERED, "stop", text="abc", timing=Timing(5.0), trace=chunks, usage=Usage(source="chunks")
    )
    with Store(tmp_path / "run.db") as store:
        store.add_trials(plan, SPEC)
        store.record(plan[0], SPEC.fingerprint, full, render(plan[0].probe), counts=True, in_flight=7)
        store.record(plan[1], SPEC.fingerprint, bare, render(plan[1].probe), counts=True)
        store.record(
            plan[2], SPEC.fingerprint, Attempt(Outcome.TRANSPORT, "no"), render(plan[2].probe), counts=True
        )
    first, second, third = frame(tmp_path / "run.db").itertuples()
    assert (first.tpot_s, first.tokens_per_chunk) == (0.25, 3.0)  # 9 tokens of the answer in 3 arrivals, 2 s
    assert (first.ttft_scheduled_s, first.latency_scheduled_s, first.reasoning_ttft_s) == (2.0, 5.0, 0.5)
    assert (first.reported_model, first.usage_source, first.reasoning_tokens) == ("m-7", "usage", 5)
    assert (first.in_flight, first.client_lag_s) == (7, 0.001)
    for row in (second, third):
        assert pd.isna(row.tpot_s)
        assert pd.isna(row.tokens_per_chunk)
        assert pd.isna(row.latency_scheduled_s)
        assert pd.isna(row.in_flight)


def test_an_end_token_is_no_token_of_the_answer(tmp_path: Path) -> None:
    """Means are over the tokens that the answer shows, whether or not a server tells of the end token."""
    (trial, other) = trials(2)
    top = ((("a", HALF), ("b", HALF)),)
    told = TokenTrace(("a", ""), (HALF, -5.0), (*top, (("", -5.0), ("c", -0.01))), (1, 2), (), "logprobs")
    untold = TokenTrace(("a",), (HALF,), top, (1,), (), "logprobs")
    with Store(tmp_path / "run.db") as store:
        store.add_trials([trial, other], SPEC)
        for item, trace in ((trial, told), (other, untold)):
            attempt = Attempt(Outcome.ANSWERED, "stop", text="a", trace=trace)
            store.record(item, SPEC.fingerprint, attempt, render(item.probe), counts=True)
    table = frame(tmp_path / "run.db")
    for name in ("tokens_traced", "mean_logprob", "entropy_low", "entropy_high", "first_entropy_low"):
        assert table[name].nunique() == 1, name
    assert table["tokens_traced"].tolist() == [1, 1]
