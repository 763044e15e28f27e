"""Every fit of the diagnose notebook on a frame of 1,000,000 observations: seconds and peak memory.

    python benchmarks/million_rows.py              1,000,000 rows; the bars are 30 s and 3 GB on 2 cores
    python benchmarks/million_rows.py --quick      100,000 rows

The frame has the columns and types of `bunny_probe.runs.frame`. Peak memory is the process's own, frame
included, by getrusage. The peer, in the same process and last: one logistic regression of statsmodels on the
same rows (score against log-length), which is less than any one of the fits answers. Exit code 0: bars hold.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from bunny_probe import fits

SECONDS, GIGABYTES = 30.0, 3.0


def make(rows: int) -> pd.DataFrame:
    """Documents asked ten times each, at eight lengths and eleven depths; one request in a hundred fails."""
    rng = np.random.default_rng(1)
    length = rng.choice(1024 * 2 ** np.arange(8), rows)
    depth = rng.choice(np.linspace(0, 1, 11), rows)
    document = rng.integers(0, rows // 10, rows) * 8 + np.log2(length).astype(int)
    chance = 0.95 / (1 + (length / 60_000) ** 1.5) * (1 - 0.3 * np.exp(-(((depth - 0.5) / 0.2) ** 2)))
    hit = rng.random(rows) < chance
    family = rng.choice(["length", "position", "stress"], rows, p=[0.4, 0.4, 0.2])
    answered = rng.random(rows) < 0.99
    entropy = rng.gamma(2, 0.2, rows)

    def text(values: np.ndarray) -> pd.Series[Any]:
        return pd.Series(values, dtype="string")

    return pd.DataFrame(
        {
            "probe_id": text(np.char.add("p", np.arange(rows).astype(str))),
            "cluster": text(np.char.add("c", document.astype(str))),
            "outcome": text(np.where(answered, "answered", "timeout")),
            "answered": pd.Series(answered, dtype="boolean"),
            "family": text(family),
            "task": text(rng.choice(["negation", "format", "conflict", "empty"], rows)),
            "variant": text(rng.choice(["plain", "twin", "long"], rows)),
            "label": text(np.where(hit, "hit", np.where(rng.random(rows) < 0.3, "wrong_anchor", "miss"))),
            "length_tokens": pd.Series(length, dtype="Int64"),
            "depth": depth,
            "score": np.where(answered, hit.astype(float), np.nan),
            "entropy_low": entropy,
            "entropy_high": entropy + 0.5,
            "first_entropy_low": entropy * 1.5,
            "first_entropy_high": entropy * 1.5 + 0.5,
            "ttft_s": rng.lognormal(-2, 0.4, rows),
            "latency_s": rng.lognormal(-1, 0.4, rows),
            "completion_tokens": pd.Series(rng.integers(4, 60, rows), dtype="Int64"),
            "timing_valid": pd.Series(np.ones(rows, dtype=bool), dtype="boolean"),
            "chance": 0.0,
        }
    )


def questions(frame: pd.DataFrame) -> dict[str, Callable[[], fits.Result]]:
    """What `bunny_probe.reports.diagnose` asks, and what its neighbours ask of the same frame."""
    length, position, stress = (frame[frame["family"] == name] for name in ("length", "position", "stress"))
    return {
        "outcomes": lambda: fits.Outcomes()(frame),
        "outcomes by family": lambda: fits.Outcomes(by="family")(frame),
        "decay": lambda: fits.Decay()(length),
        "window": lambda: fits.Window()(length),
        "recall": lambda: fits.Recall()(position),
        "stress by family": lambda: fits.Groups(by=("family",))(stress),
        "stress by task": lambda: fits.Groups(by=("task",))(stress),
        "stress by variant": lambda: fits.Groups(by=("task", "variant"))(stress),
        "entropy": lambda: fits.Entropy()(length),
        "also: window from the end": lambda: fits.Window(axis="from_end")(position),
        "also: recall surface": lambda: fits.RecallSurface()(position),
        "also: unreferenced": lambda: fits.Unreferenced()(position),
        "also: first-token entropy by depth": lambda: fits.Entropy(by="depth", token="first")(position),
        "also: collapse": lambda: fits.Collapse(choices=2.5)(length),
        "also: distribution": lambda: fits.Distribution()(frame),
        "also: decay over all rows": lambda: fits.Decay()(frame),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100,000 rows")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = args.rows or (100_000 if args.quick else 1_000_000)
    frame = make(rows)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    seconds = {}
    for name, ask in questions(frame).items():
        start = time.perf_counter()
        result = ask()
        seconds[name] = time.perf_counter() - start
        if result.status == "refused":
            raise SystemExit(f"{name}: refused, {result.reason}")
    total = sum(seconds.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    start = time.perf_counter()
    _peer(frame)
    peer = time.perf_counter() - start
    bars = [
        {"name": "seconds, every fit together", "value": total, "limit": SECONDS, "holds": total < SECONDS},
        {"name": "peak memory, GB", "value": peak, "limit": GIGABYTES, "holds": peak < GIGABYTES},
    ]
    result_of = {
        "rows": rows, "seconds": seconds, "memory with the frame alone, GB": base,
        "peer: one logistic regression of statsmodels, seconds": peer, "bars": bars,
    }  # fmt: skip
    if args.json:
        print(json.dumps(result_of, indent=1))
    else:
        for name, value in seconds.items():
            print(f"{name:36} {value:7.2f} s")
        print(f"{'peer: one logistic regression':36} {peer:7.2f} s; memory with the frame alone {base:.2f} GB")
        for bar in bars:
            mark = "holds" if bar["holds"] else "MISSED"
            print(f"{bar['name']:36} {bar['value']:7.2f} limit {bar['limit']:g}  {mark}")
    return 0 if all(bar["holds"] for bar in bars) else 1


def _peer(frame: pd.DataFrame) -> None:
    import statsmodels.api as sm

    use = frame[frame["answered"].fillna(False)]
    x = sm.add_constant(np.log2(use["length_tokens"].to_numpy(dtype=float)))
    sm.GLM(use["score"].to_numpy(dtype=float), x, family=sm.families.Binomial()).fit()


if __name__ == "__main__":
    sys.exit(main())
