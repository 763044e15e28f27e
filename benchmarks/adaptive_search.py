"""Does the adaptive search find the window for a tenth of the tokens, and without bias?

    python benchmarks/adaptive_search.py              what is not done yet of 200 models; about 4 minutes
    python benchmarks/adaptive_search.py --minutes 4  as far as it gets, then stop; run again to go on
    python benchmarks/adaptive_search.py --quick      6 models, nothing kept

Simulated models: a logistic fall, an exponential one and a cliff in turn, window and base at random. The peer
is a uniform grid of ten lengths, asked until the same belief (the search's own net of curves) is as narrow.
Exit code 0: every bar holds.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _coverage_curves import true_crossing
from _pieces import Pieces, code_of

from bunny_probe.fits.adaptive import Tried, WindowSearch, _net

SHORTEST, LONGEST = 1024, 131_072
KINDS = ("logistic", "exponential", "cliff")
MOST = 6000  # answers a length at which the grid gives up
GRIDS = {"even": np.linspace(SHORTEST, LONGEST, 10), "geometric": np.geomspace(SHORTEST, LONGEST, 10)}


def model(index: int) -> tuple[Callable[[float], float], float]:
    """(score against length, true window) of a simulated model."""
    rng = np.random.default_rng([7, index])
    top, window = rng.uniform(0.8, 0.98), float(np.exp(rng.uniform(np.log(2048), np.log(100_000))))
    kind = KINDS[index % 3]
    if kind == "logistic":
        steep = rng.uniform(1.0, 6.0)
        middle = np.log(window) - np.log(1 / 0.85 - 1) / steep
        course = lambda x: top / (1 + np.exp(steep * (np.log(x) - middle)))  # noqa: E731
    elif kind == "exponential":
        rate = -np.log(0.85) / (window - SHORTEST)
        course = lambda x: top * np.exp(-rate * (np.asarray(x, dtype=float) - SHORTEST))  # noqa: E731
    else:
        course = lambda x: np.where(np.asarray(x) < window, top, 0.1)  # noqa: E731
    return course, true_crossing(course, SHORTEST, LONGEST, 0.85)


def search(index: int) -> dict[str, float]:
    """One model: what the search spent and found, and what the grids spent for the same width."""
    course, truth = model(index)
    rng = np.random.default_rng([8, index])
    step_of = WindowSearch(shortest=SHORTEST, longest=LONGEST, width=1.0)
    tried: dict[int, tuple[float, int]] = {}
    for _ in range(600):
        step = step_of([Tried(length, h, n) for length, (h, n) in tried.items()])
        if step.length is None:
            break
        h, n = tried.get(step.length, (0.0, 0))
        tried[step.length] = (h + rng.binomial(step.repeats, float(course(step.length))), n + step.repeats)
    assert step.belief is not None
    found, width = step.belief.window, step.belief.width
    net = _net(SHORTEST, LONGEST, 0.85, step_of.candidates)
    out = {
        "kind": float(index % 3),
        "tokens": float(step.tokens_spent),
        "width": width,
        "held": float((found.low or math.inf) <= truth * 1.0001 and truth <= (found.high or math.inf) * 1.0001),
        "bias": math.log2((found.value or LONGEST) / min(truth, LONGEST)),
    }
    for name, lengths in GRIDS.items():
        grid = np.round(lengths)
        hits, n = np.zeros(grid.size), 0
        while n < MOST:
            more = max(4, n // 20)
            hits += rng.binomial(more, course(grid))
            n += more
            asked = [Tried(int(x), k, n) for x, k in zip(grid, hits, strict=True)]
            if step_of.belief(net, net.posterior(asked)).width <= max(width, 1.0):
                break
        out[f"{name} tokens"] = float(n * grid.sum())
        out[f"{name} reached"] = float(n < MOST)
    return out


def batch(indices: list[int]) -> list[dict[str, float]]:
    return [search(i) for i in indices]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="6 models, nothing kept")
    parser.add_argument("--models", type=int, help="how many (default 200, or 6 with --quick)")
    parser.add_argument("--folder", type=Path, default=Path("build/adaptive"), help="where pieces are kept")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no piece after this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    args = parser.parse_args()
    count = args.models or (6 if args.quick else 200)
    stamp = code_of(("adaptive",), inspect.getsource(search), inspect.getsource(model))
    tasks = [(f"models {i}", stamp, list(range(i, min(i + 4, count)))) for i in range(0, count, 4)]
    with tempfile.TemporaryDirectory() as scratch:
        pieces = Pieces(Path(scratch) if args.quick else args.folder)
        pieces.run(tasks, batch, workers=args.workers, minutes=args.minutes)
        done = [pieces.get(key, stamp) for key, stamp, _ in tasks]
    found = [one for value in done if value is not None for one in value]
    missing = sum(value is None for value in done)
    if not found:
        print("nothing is done yet")
        return 1

    def over(name: str) -> float:
        return float(np.median([f["tokens"] / f[f"{name} tokens"] for f in found]))

    bias = [f["bias"] for f in found]
    kinds = {
        kind: {
            "held": float(np.mean([f["held"] for f in found if f["kind"] == i])),
            "bias, octaves": float(np.median([f["bias"] for f in found if f["kind"] == i])),
            "tokens over an even grid": float(
                np.median([f["tokens"] / f["even tokens"] for f in found if f["kind"] == i])
            ),
        }
        for i, kind in enumerate(KINDS)
    }
    worst = max(abs(k["bias, octaves"]) for k in kinds.values())
    bars = [
        ("tokens over an even grid of ten, median", over("even"), 0.1, True),
        ("intervals that hold the truth", float(np.mean([f["held"] for f in found])),
         0.5 if args.quick else 0.93, False),
        ("median bias of the window, octaves", abs(float(np.median(bias))), 0.5 if args.quick else 0.1, True),
        ("the same, kind of model with the largest", worst, 1.0 if args.quick else 0.1, True),
    ]  # fmt: skip
    result = {
        "models": len(found), "missing": missing, "kinds": kinds,
        "tokens over a geometric grid of ten, median": over("geometric"),
        "grids that reached the width": {g: float(np.mean([f[f"{g} reached"] for f in found])) for g in GRIDS},
        "bars": [
            {"name": name, "value": value, "limit": limit, "holds": value <= limit if most else value >= limit}
            for name, value, limit, most in bars
        ],
    }  # fmt: skip
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for key, value in result.items():
            if key != "bars":
                print(f"{key}: {json.dumps(value)}")
        for bar in result["bars"]:
            mark = "holds" if bar["holds"] else "MISSED"
            print(f"{bar['name']:48} {bar['value']:.3f} limit {bar['limit']}  {mark}")
        if missing:
            print(f"{missing} pieces are not done: run the same command again")
    return 0 if not missing and all(bar["holds"] for bar in result["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
