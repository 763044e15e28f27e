"""Are the intervals true? Simulated campaigns with a known truth, every estimator, three sample sizes.

    python benchmarks/coverage.py                     what is not done yet, 1,000 campaigns a row; about an hour
    python benchmarks/coverage.py --only curves       one estimator; --minutes 4: as far as it gets, then stop
    python benchmarks/coverage.py --quick             24 campaigns a row, fewer rows, nothing kept
    python benchmarks/coverage.py --table FILE        the table of what is done, as Markdown

A piece (estimator, truth, size) is kept under `--folder` and done again only when the estimator's code or the
campaign has changed. Peers in the same campaigns: Wald intervals, and the first tested length whose mean is
under the fraction, which is what harnesses report. Exit code 0: every bar holds.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import platform
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).resolve().parent))

import _coverage_campaigns as campaign
import _coverage_curves as length
import _coverage_more as more
from _held import Held
from _pieces import Pieces, code_of

LOW, HIGH = 0.93, 0.97
NAMED = ("exponential 0.85·e^(-2.3e-6·L), to 1M", "hard cliff at 50,000", "no decay", "mid-depth dip")
CAMPAIGNS = 1000


@dataclass(frozen=True)
class Estimator:
    work: Callable[[str, int, int, int], list[Held]]  # (truth, size, campaigns, seed)
    truths: dict[str, object]
    sizes: tuple[int, int, int]
    modules: tuple[str, ...]  # of bunny_probe.fits


ESTIMATORS = {
    "curves": Estimator(length.curves, length.COURSES, (10, 30, 100), ("ensemble",)),
    "knee": Estimator(length.knee, length.KNEES, (10, 30, 100), ("decay",)),
    "from_end": Estimator(length.from_end, length.REACHES, (10, 30, 100), ("window",)),
    "surface": Estimator(campaign.surface, campaign.SURFACES, (10, 30, 100), ("recall", "surface")),
    "unreferenced": Estimator(campaign.unreferenced, campaign.RISES, (10, 30, 100), ("unreferenced",)),
    "entropy": Estimator(campaign.entropy, campaign.CALM, (10, 30, 100), ("entropy",)),
    "percentiles": Estimator(campaign.percentiles, campaign.LAWS, (5, 15, 50), ("distribution",)),
    "differences": Estimator(campaign.differences, campaign.PAIRS, (5, 15, 50), ("paired",)),
    "consistency": Estimator(campaign.consistency, campaign.STEADY, (5, 15, 50), ("agreement",)),
    **{name: Estimator(work, truths, sizes, modules) for name, work, truths, sizes, modules in more.ESTIMATORS},
}

# Rows in which an interval cannot miss, so that more than 97 % is no fault: quantity, start of the truth.
BOUNDED = {
    ("window at 85 %", "no decay"): "the truth is 'beyond': one side cannot miss",
    ("half-length", "no decay"): "the truth is 'beyond': one side cannot miss",
    ("half-length", "held out: mid-length dip"): "the truth is 'beyond': one side cannot miss",
    ("half-length", "held out: two slopes"): "the truth is 'beyond': one side cannot miss",
    ("window at 85 %", "hard cliff"): "the cliff stands between two tested lengths: the interval is their gap",
    ("half-length", "hard cliff"): "the cliff stands between two tested lengths: the interval is their gap",
    ("last tokens that count, 85 %", "last 40,000, cliff"): "the cliff stands between two tested positions",
}


# Why rows miss the bar: reason → (estimator, start of the quantity, start of the truth, verdict).
REASONS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "no curve rises, and ten documents a length do not tell a dip from chance": (
        ("curves", "score", "held out: mid-length dip", "too narrow"),
    ),
    "no curve falls in steps; where the data show it the fit says so": (
        ("curves", "", "two steps", "too narrow"), ("curves", "", "held out: terraces", "too narrow"),
    ),
    "a straight line in tokens is none of the curves, and the cells do not tell it from them": (
        ("curves", "", "held out: linear", "too narrow"),
    ),
    "the score steps beside the cut, as near as the cut is uncertain": (
        ("both tails", "graded score", "a step", "too narrow"),
    ),
    "the tail is twenty answers, two of them hits": (
        ("tails", "score of the slowest", "slow is much worse", "too narrow"),
    ),
    "in thirty probes seven pairs agree, and how alike they are is estimated from these": (
        ("consistency", "", "loose", "too narrow"),
    ),
    "the dip is short: whether the score falls for good stays open": (
        ("curves", "window", "held out: mid-length dip", "wide"),
    ),
    "the truth is near the end of what was probed, so the upper side hardly misses": (
        ("curves", "half-length", "", "wide"),
    ),
    "the curve is among the five or near one: the others only widen": (
        ("curves", "window", "", "wide"), ("from_end", "", "last", "wide"), ("knee", "", "", "wide"),
    ),
    "the cells lead, and their intervals add to the curves'": (("curves", "score", "", "wide"),),
    "ranks are whole numbers: no interval of so few answers is nearer": (
        ("percentiles", "", "", "wide"), ("both tails", "latency", "", "wide"),
    ),
    "few votes have few outcomes": (("standings", "", "", "wide"),),
    "answers that differ are added, so that few are not taken for none": (
        ("differences", "", "", "wide"), ("settings", "", "", "wide"), ("apart", "", "", "wide"),
        ("edits", "", "", "wide"),
    ),
    "lengths are set, and counted as if they were drawn": (("surface", "overall recall", "", "wide"),),
}  # fmt: skip


@dataclass
class Row:
    estimator: str
    quantity: str
    truth: str
    size: int
    campaigns: int
    intervals: int
    coverage: float | None
    below: float  # share of intervals that lie above the truth
    above: float  # share of intervals that lie below it
    none: float  # share without an interval
    peer: float | None
    width: float | None
    verdict: str


def bounded(row: Row) -> str | None:
    return next((why for (q, t), why in BOUNDED.items() if q == row.quantity and row.truth.startswith(t)), None)


def reason(row: Row) -> str:
    """Why a row misses the bar: what is known of it, or that it misses by no more than chance."""
    for why, places in REASONS.items():
        for estimator, quantity, truth, verdict in places:
            alike = row.quantity.startswith(quantity) and row.truth.startswith(truth)
            if alike and (row.estimator, row.verdict) == (estimator, verdict):
                return why
    coverage = row.coverage or 0.0
    bar = LOW if coverage < LOW else HIGH
    near = abs(coverage - bar) < 2 * math.sqrt(bar * (1 - bar) / row.campaigns)
    return "by less than two standard errors" if near else "not explained"


def work(task: tuple[str, str, int, int]) -> list[dict[str, object]]:
    """The rows of one piece."""
    name, truth, size, campaigns = task
    seed = zlib.crc32(f"{name}/{truth}/{size}".encode())
    rows = []
    for held in ESTIMATORS[name].work(truth, size, campaigns, seed):
        given = held.n - held.none
        coverage = held.inside / given if given else None
        slack = 2 * math.sqrt(0.95 * 0.05 / campaigns) if campaigns < CAMPAIGNS else 0.0
        verdict = "holds"
        if coverage is None or held.none > 0.5 * held.n:
            verdict = "no interval"
        elif coverage < LOW - slack:
            verdict = "too narrow"
        elif coverage > HIGH + slack:
            verdict = "wide"
        row = Row(
            name, held.quantity, truth, size, campaigns, given, coverage, held.below / max(given, 1),
            held.above / max(given, 1), held.none / held.n, held.peer / held.n if held.peer else None,
            held.width or None, verdict,
        )  # fmt: skip
        if verdict == "wide" and bounded(row):
            row.verdict = "bounded"
        rows.append(asdict(row))
    return rows


def tasks(only: list[str], quick: bool, campaigns: int) -> list[tuple[str, str, tuple[str, str, int, int]]]:
    out = []
    for name in only:
        estimator = ESTIMATORS[name]
        truths, sizes = list(estimator.truths), estimator.sizes
        for truth in truths[:2] if quick else truths:
            for size in sizes[1:2] if quick else sizes:
                source = inspect.getsource(estimator.work)
                stamp = f"{campaigns}-{code_of(estimator.modules, source)}"
                out.append((f"{name}/{truth}/{size}", stamp, (name, truth, size, campaigns)))
    return out


def bars(rows: list[Row]) -> list[dict[str, object]]:
    judged = [row for row in rows if row.verdict != "no interval"]
    out: list[dict[str, object]] = []
    for verdict, text in (("too narrow", f"less than {LOW:.0%}"), ("wide", f"more than {HIGH:.0%}")):
        count = sum(row.verdict == verdict for row in judged)
        out.append({"name": f"rows whose intervals cover {text}", "value": count, "of": len(judged),
                    "limit": 0, "holds": count == 0})  # fmt: skip
    return out


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.processor())
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


HEAD = "| estimator | quantity | truth | size | campaigns | covers | below | above | none | peer | "
RULE = "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|"


def line(r: Row, last: str) -> str:
    cover, peer = ("" if v is None else f"{v:.3f}" for v in (r.coverage, r.peer))
    return (
        f"| {r.estimator} | {r.quantity} | {r.truth} | {r.size} | {r.campaigns:,} | {cover} | {r.below:.3f} "
        f"| {r.above:.3f} | {r.none:.3f} | {peer} | {last} |"
    )


def misses(rows: list[Row], verdict: str) -> list[str]:
    """A table of the rows with this verdict, the worst first, each with its reason."""
    found = [r for r in rows if r.verdict == verdict]
    if not found:
        return ["None."]
    found.sort(key=lambda r: r.coverage or 0, reverse=verdict == "wide")
    return [f"{HEAD}why |", RULE, *(line(r, reason(r)) for r in found)]


def markdown(rows: list[Row], left: list[str]) -> str:
    """The whole table, misses first; `left`: the keys of what is not done."""
    judged = sum(r.verdict != "no interval" for r in rows)
    narrow, wide = (sum(r.verdict == v for r in rows) for v in ("too narrow", "wide"))
    named = [r for r in rows if r.truth in NAMED]
    fewer = sorted({f"{r.estimator} {r.campaigns:,}" for r in rows if r.campaigns < CAMPAIGNS})
    undone = Counter(key.split("/")[0] for key in left)
    text = [
        "# Coverage of the intervals",
        "",
        "How often 95 % intervals held the truth in simulated campaigns. The bar is "
        f"{LOW:.0%} to {HIGH:.0%} of {CAMPAIGNS:,} campaigns a row"
        + (f" (fewer: {', '.join(fewer)}; two standard errors more to each side there)" if fewer else "")
        + f". A row's standard error is {math.sqrt(0.05 * 0.95 / CAMPAIGNS):.3f} at {CAMPAIGNS:,}.",
        "",
        f"**{judged} rows: {judged - narrow - wide} hold, {narrow} are too narrow, {wide} wide.** Of the rows "
        "of an exponential decay to 1M tokens, a hard cliff, no decay and a mid-depth dip, "
        f"{sum(r.verdict in ('holds', 'bounded') for r in named)} of {len(named)} hold. No constant was set by "
        'truths that are "held out".'
        + (f" Not done: {', '.join(f'{n} of {name}' for name, n in undone.items())}." if undone else ""),
        "",
        "- `size`: documents a length (or the sixth part of all answers, or votes a pair).",
        "- `below`, `above`: the truth lay below, above the interval.",
        "- `none`: campaigns that gave no interval, which are not counted.",
        "- `peer`: what the usual way (Wald's interval; the first tested length under the fraction, with a "
        "bootstrap) covered in the same campaigns.",
        "",
        "Made by `python benchmarks/coverage.py`, then the same with `--table docs/coverage.md`, on "
        f"{time.strftime('%Y-%m-%d')}; {machine()}.",
        "",
        "## Too narrow",
        "",
        *misses(rows, "too narrow"),
        "",
        "## Wide",
        "",
        "These hold the truth more often than they say: safe to act on, and wider than they need be.",
        "",
        *misses(rows, "wide"),
        "",
        "## All rows",
        "",
        f"{HEAD}verdict |",
        RULE,
        *(line(r, r.verdict if r.verdict != "bounded" else f"holds: {bounded(r)}") for r in rows),
    ]  # fmt: skip
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", action="append", choices=list(ESTIMATORS), help="this estimator; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="24 campaigns a row, fewer rows, nothing kept")
    parser.add_argument(
        "--campaigns", type=int, help=f"campaigns a row (default {CAMPAIGNS:,}, or 24 with --quick)"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/coverage"), help="where pieces are kept")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no piece after this")
    parser.add_argument("--table", type=Path, help="write the table of what is done here, and do nothing else")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    args = parser.parse_args()
    campaigns = args.campaigns or (24 if args.quick else CAMPAIGNS)
    todo = tasks(args.only or list(ESTIMATORS), args.quick, campaigns)
    with tempfile.TemporaryDirectory() as scratch:
        pieces = Pieces(Path(scratch) if args.quick else args.folder)
        if not args.table:
            pieces.run(todo, work, workers=args.workers, minutes=args.minutes)
        # a table is of what there is of this code, however many campaigns
        found = [pieces.get(key, stamp, loose=bool(args.table)) for key, stamp, _ in todo]
    rows = [Row(**row) for value in found if value is not None for row in value]
    missing = sum(value is None for value in found)
    if args.table:
        left = [key for (key, _, _), value in zip(todo, found, strict=True) if value is None]
        args.table.write_text(markdown(rows, left))
    result = {
        "campaigns": campaigns, "machine": machine(), "missing": missing,
        "rows": [asdict(r) for r in rows], "bars": bars(rows),
    }  # fmt: skip
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for row in rows:
            cover = "    -" if row.coverage is None else f"{row.coverage:.3f}"
            peer = "" if row.peer is None else f"  peer {row.peer:.3f}"
            mark = "" if row.verdict == "holds" else f"  <- {row.verdict}"
            print(
                f"{row.quantity:34} {row.truth:38} {row.size:4d} {cover} -{row.below:.3f} +{row.above:.3f} "
                f"none {row.none:.3f}{peer}{mark}"
            )
        for bar in bars(rows):
            print(f"{bar['name']:64} {bar['value']} of {bar['of']}  {'holds' if bar['holds'] else 'MISSED'}")
        if missing:
            print(f"{missing} pieces are not done: run the same command again")
    return 0 if not missing and all(bar["holds"] for bar in bars(rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
