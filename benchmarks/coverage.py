"""Are the intervals true? Simulated campaigns with a known truth, every estimator, three sample sizes.

    python benchmarks/coverage.py            1,000 campaigns a row: about 20 minutes on 2 cores
    python benchmarks/coverage.py --quick    under a minute: 24 campaigns a row, fewer rows
    python benchmarks/coverage.py --json     the same as JSON, with the bars

Peers measured in the same run: Wald intervals and the first grid length whose mean is under the fraction
(what harnesses report) for coverage; a uniform grid of ten lengths for the adaptive search.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _coverage_campaigns import ESTIMATORS, true_crossing

from bunny_probe import fits
from bunny_probe.fits.adaptive import Tried, WindowSearch, _net

LOW, HIGH = 0.93, 0.97

# Rows in which an interval cannot miss on the stated side: the truth sits at the border of what can be.
BOUNDED = {
    ("window at 85 %", "no decay"): "the truth is 'beyond': one side cannot miss",
    ("half-length", "no decay"): "the truth is 'beyond': one side cannot miss",
}


@dataclass
class Row:
    estimator: str
    quantity: str
    truth: str
    documents: int
    campaigns: int
    intervals: int
    coverage: float
    below: float  # share of intervals that lie above the truth
    above: float  # share of intervals that lie below it
    none: float  # share without an interval
    peer: float | None
    width: float | None
    verdict: str


def _row(task: tuple[str, str, int, int, int]) -> list[Row]:
    name, truth, documents, campaigns, seed = task
    rows = []
    for held in ESTIMATORS[name][0](truth, documents, campaigns, seed):
        given = held.n - held.none
        coverage = held.inside / given if given else float("nan")
        # intervals of one campaign are correlated: the error is that of the campaigns
        error = math.sqrt(0.95 * 0.05 / campaigns)
        verdict = "holds"
        if not given:
            verdict = "no interval"
        elif coverage < LOW - 2 * error * (campaigns < 1000):
            verdict = "too narrow"
        elif coverage > HIGH + 2 * error * (campaigns < 1000):
            verdict = "wide"
        rows.append(
            Row(
                name, held.quantity, truth, documents, campaigns, given, coverage, held.below / max(given, 1),
                held.above / max(given, 1), held.none / held.n, held.peer / held.n if held.peer else None,
                held.width or None, verdict,
            )
        )  # fmt: skip
    return rows


def coverage(campaigns: int, quick: bool, workers: int) -> list[Row]:
    tasks = []
    for name, (_, truths, sizes) in ESTIMATORS.items():
        for truth in truths[:2] if quick else truths:
            for size in sizes[1:2] if quick else sizes:
                tasks.append((name, truth, size, campaigns, len(tasks) + 1))
    with ProcessPoolExecutor(workers) as pool:
        return [row for rows in pool.map(_row, tasks) for row in rows]


# ── the adaptive search ─────────────────────────────────────────────────────────────────────────────


def _model(index: int) -> tuple[object, float]:
    """A simulated model: an exponential, a logistic or a cliff with its window at a random place."""
    rng = np.random.default_rng([7, index])
    top, window = rng.uniform(0.8, 0.98), float(np.exp(rng.uniform(np.log(2048), np.log(100_000))))
    kind = index % 3
    if kind == 0:
        steep = rng.uniform(1.0, 6.0)
        middle = np.log(window) - np.log(1 / 0.85 - 1) / steep
        course = lambda x: top / (1 + np.exp(steep * (np.log(x) - middle)))  # noqa: E731
    elif kind == 1:
        rate = -np.log(0.85) / (window - 1024)
        course = lambda x: top * np.exp(-rate * (np.asarray(x, dtype=float) - 1024))  # noqa: E731
    else:
        course = lambda x: np.where(np.asarray(x) < window, top, 0.1)  # noqa: E731
    return course, true_crossing(course, 1024, 131_072, 0.85)


def _search(index: int) -> dict[str, float]:
    course, truth = _model(index)
    rng = np.random.default_rng([8, index])
    search = WindowSearch(shortest=1024, longest=131_072, width=1.0)
    tried: dict[int, tuple[float, int]] = {}
    for _ in range(600):
        step = search([Tried(length, h, n) for length, (h, n) in tried.items()])
        if step.length is None:
            break
        h, n = tried.get(step.length, (0.0, 0))
        tried[step.length] = (h + rng.binomial(step.repeats, float(course(step.length))), n + step.repeats)
    assert step.belief is not None
    found, width = step.belief.window, step.belief.width
    net = _net(1024, 131_072, 0.85, search.candidates)
    out = {
        "tokens": float(step.tokens_spent),
        "held": float((found.low or math.inf) <= truth * 1.0001 and truth <= (found.high or math.inf) * 1.0001),
        "bias": math.log2((found.value or 131_072) / min(truth, 131_072)),
    }
    for name, grid in (
        ("even", np.linspace(1024, 131_072, 10)),
        ("geometric", np.geomspace(1024, 131_072, 10)),
    ):
        grid = np.round(grid)
        hits, n = np.zeros(10), 0
        while n < 6000:
            more = max(4, n // 20)
            hits += rng.binomial(more, course(grid))
            n += more
            belief = search.belief(
                net, net.posterior([Tried(int(x), k, n) for x, k in zip(grid, hits, strict=True)])
            )
            if belief.width <= max(width, 1.0):
                break
        out[f"{name} grid"] = float(n * grid.sum())
        out[f"{name} reached"] = float(belief.width <= max(width, 1.0))
    return out


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────


def _runs(p1: float, p2: float, probes: int, seed: int, lengths: int = 4) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two runs over the same probes; answers of a probe agree between the runs with correlation about 0.3."""
    from scipy.special import ndtri

    rng = np.random.default_rng([9, seed])
    shared = rng.normal(0, 1, probes)
    out = []
    for p in (p1, p2):
        latent = np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.normal(0, 1, probes)
        hit = latent < ndtri(p)
        noise = rng.integers(0, 4, probes)
        out.append(
            pd.DataFrame(
                {
                    "probe_id": [f"p{i}" for i in range(probes)],
                    "cluster": np.arange(probes),
                    "length_tokens": 1024 * (1 + np.arange(probes) % lengths),
                    "answered": True,
                    "score": hit.astype(float),
                    "text": [f"The code is {'K' if h else 'X'}-{v}." for h, v in zip(hit, noise, strict=True)],
                    "first_top": [
                        json.dumps([["K" if h else "X", -0.1 - 0.05 * float(v)], ["Z", -2.4]])
                        for h, v in zip(hit, noise, strict=True)
                    ],
                    "ttft_s": rng.lognormal(-2, 0.4, probes),
                    "latency_s": rng.lognormal(-1, 0.4, probes),
                }
            )
        )
    return out[0], out[1]


def _false_alarm(seed: int) -> tuple[bool, bool]:
    fit = fits.Compare(rounds=200)(*_runs(0.85, 0.85, 60, seed))
    alarm = fit.same_model is False or any(q.verdict in {"better", "worse"} for q in fit.questions)
    peer = any(q.p < 0.05 for q in fit.questions)  # each question tested by itself
    return alarm, peer


def _power(task: tuple[int, int]) -> bool:
    documents, seed = task
    fit = fits.Compare(by=None, times=(), rounds=200)(*_runs(0.85, 0.75, documents, 50_000 + seed))
    return fit.questions[0].verdict == "worse"


# ── a frame of a million observations ───────────────────────────────────────────────────────────────


def _million(rows: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    length = rng.choice(1024 * 2 ** np.arange(8), rows)
    depth = rng.choice(np.linspace(0, 1, 11), rows)
    document = rng.integers(0, rows // 10, rows) * 8 + np.log2(length).astype(int)
    hit = rng.random(rows) < 0.95 / (1 + (length / 60_000) ** 1.5) * (
        1 - 0.3 * np.exp(-(((depth - 0.5) / 0.2) ** 2))
    )
    frame = pd.DataFrame(
        {
            "probe_id": pd.Series(np.char.add("p", np.arange(rows).astype(str)), dtype="string"),
            "cluster": pd.Series(np.char.add("c", document.astype(str)), dtype="string"),
            "outcome": pd.Series(np.where(rng.random(rows) < 0.99, "answered", "timeout"), dtype="string"),
            "family": pd.Series(np.where(depth == 0, "length", "position"), dtype="string"),
            "label": pd.Series(np.where(hit, "hit", "wrong_anchor"), dtype="string"),
            "length_tokens": pd.Series(length, dtype="Int64"),
            "depth": depth,
            "score": hit.astype(float),
            "entropy_low": rng.gamma(2, 0.2, rows),
            "entropy_high": rng.gamma(2, 0.2, rows) + 0.5,
            "first_entropy_low": rng.gamma(2, 0.3, rows),
            "first_entropy_high": rng.gamma(2, 0.3, rows) + 0.5,
            "ttft_s": rng.lognormal(-2, 0.4, rows),
            "latency_s": rng.lognormal(-1, 0.4, rows),
            "timing_valid": True,
            "chance": 0.0,
        }
    )  # fmt: skip
    frame["answered"] = (frame["outcome"] == "answered").astype("boolean")
    start = time.perf_counter()
    out = {}
    for name, fit in {
        "decay": fits.Decay(), "window": fits.Window(), "window from the end": fits.Window(axis="from_end"),
        "recall": fits.Recall(), "surface": fits.RecallSurface(), "unreferenced": fits.Unreferenced(),
        "entropy": fits.Entropy(), "entropy by depth": fits.Entropy(by="depth", token="first"),
        "collapse": fits.Collapse(choices=2.5), "outcomes": fits.Outcomes(by="family"),
        "distribution": fits.Distribution(),
    }.items():  # fmt: skip
        before = time.perf_counter()
        result = fit(frame)
        assert result.status != "refused", result.reason
        out[name] = time.perf_counter() - before
    out["all fits"] = time.perf_counter() - start
    out["peak memory, GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return out


# ── report ──────────────────────────────────────────────────────────────────────────────────────────


def _bar(name: str, value: float, limit: float, *, most: bool) -> dict[str, object]:
    return {
        "name": name,
        "value": value,
        "limit": limit,
        "holds": bool(value <= limit if most else value >= limit),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute: 24 campaigns a row, fewer rows")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--campaigns", type=int, help="campaigns a row (default 1,000, or 24 with --quick)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    args = parser.parse_args()
    campaigns = args.campaigns or (24 if args.quick else 1000)
    started = time.perf_counter()
    size = 100_000 if args.quick else 1_000_000
    with ProcessPoolExecutor(1) as pool:  # a process of its own, so that its peak memory is its own
        big = pool.submit(_million, size).result()
    rows = coverage(campaigns, args.quick, args.workers)
    with ProcessPoolExecutor(args.workers) as pool:
        found = list(pool.map(_search, range(6 if args.quick else min(200, campaigns)), chunksize=3))
        alarms = list(pool.map(_false_alarm, range(40 if args.quick else campaigns), chunksize=10))
        planned = fits.PlanForDifference(difference=0.10, share=0.85, together=0.3, questions=3)()
        assert planned.documents is not None
        powers = list(
            pool.map(
                _power,
                [(planned.documents, s) for s in range(24 if args.quick else (campaigns + 1) // 2)],
                chunksize=10,
            )
        )
    ratio = {g: float(np.median([f["tokens"] / f[f"{g} grid"] for f in found])) for g in ("even", "geometric")}
    judged = [r for r in rows if (r.quantity, r.truth) not in BOUNDED and r.verdict != "no interval"]
    narrow = [r for r in judged if r.verdict == "too narrow"]
    wide = [r for r in judged if r.verdict == "wide"]
    n_alarm = len(alarms)
    slack = 2 * math.sqrt(0.05 * 0.95 / n_alarm) if args.quick else 0.0
    bars = [
        _bar("rows whose intervals cover less than 93 %", len(narrow), 0, most=True),
        _bar("rows whose intervals cover more than 97 %", len(wide), 0, most=True),
        _bar("adaptive search: tokens over an even grid of ten, median", ratio["even"], 0.1, most=True),
        _bar("adaptive search: intervals that hold the truth", float(np.mean([f["held"] for f in found])),
             0.93 if not args.quick else 0.5, most=False),
        _bar("adaptive search: median bias of the window, octaves",
             abs(float(np.median([f["bias"] for f in found]))),
             0.1 if not args.quick else 0.4, most=True),
        _bar("compare: false alarms on two runs of one model",
             float(np.mean([a for a, _ in alarms])), 0.05 + slack, most=True),
        _bar("compare: power against 10 points at the planned n", float(np.mean(powers)),
             0.80 if not args.quick else 0.6, most=False),
        _bar(f"{size:,} observations: seconds for every fit", big["all fits"], 30.0, most=True),
        _bar(f"{size:,} observations: peak memory, GB", big["peak memory, GB"], 3.0, most=True),
    ]  # fmt: skip
    result = {
        "campaigns": campaigns,
        "seconds": time.perf_counter() - started,
        "rows": [asdict(r) for r in rows],
        "bounded": [{"quantity": q, "truth": t, "why": why} for (q, t), why in BOUNDED.items()],
        "adaptive": {
            "models": len(found), "ratio": ratio,
            "grid reached the width": {g: float(np.mean([f[f"{g} reached"] for f in found])) for g in ratio},
        },
        "compare": {"runs": n_alarm, "peer false alarms, uncorrected": float(np.mean([p for _, p in alarms])),
                    "planned documents": planned.documents},
        "million": big,
        "bars": bars,
    }  # fmt: skip
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        _print(result, rows)
    return 0 if all(bar["holds"] for bar in bars) else 1


def _print(result: dict, rows: list[Row]) -> None:
    head = (
        f"{'quantity':32} {'truth':40} {'n':>4} {'covers':>7} {'below':>6} {'above':>6} {'none':>6} {'peer':>6}"
    )
    print(f"{result['campaigns']:,} campaigns a row; n: documents a length (or a sixth of all)\n\n{head}")
    for r in rows:
        mark = "" if r.verdict == "holds" else f"  <- {BOUNDED.get((r.quantity, r.truth), r.verdict)}"
        peer = "" if r.peer is None else f"{r.peer:6.3f}"
        print(
            f"{r.quantity:32} {r.truth:40} {r.documents:4d} {r.coverage:7.3f} {r.below:6.3f} {r.above:6.3f} "
            f"{r.none:6.3f} {peer:>6}{mark}"
        )
    print("\nadaptive search:", json.dumps(result["adaptive"]))
    print("compare:", json.dumps(result["compare"]))
    print("large frame:", ", ".join(f"{k} {v:.2f}" for k, v in result["million"].items()))
    print(f"\n{'bar':64} {'value':>9} {'limit':>8}")
    for bar in result["bars"]:
        print(
            f"{bar['name']:64} {bar['value']:9.3f} {bar['limit']:8.3f}  {'holds' if bar['holds'] else 'MISSED'}"
        )
    print(f"\n{result['seconds']:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
