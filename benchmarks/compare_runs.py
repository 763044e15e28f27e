"""Does `Compare` cry wolf on two runs of one model, and does it see ten points of recall at the planned size?

    python benchmarks/compare_runs.py              1,000 pairs of runs each; about 5 minutes on 2 cores
    python benchmarks/compare_runs.py --quick      40 pairs

Every question counts: whole score, score at each of four lengths, answers, first tokens, two times. The peer is
each question tested by itself, as a dashboard does. Exit code 0: every bar holds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy.special import ndtri

from bunny_probe import fits

SHARE, DROP, TOGETHER = 0.85, 0.10, 0.3


def runs(p1: float, p2: float, probes: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two runs over the same probes; answers to one probe go together (a latent correlation of one half)."""
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
                    "length_tokens": 1024 * (1 + np.arange(probes) % 4),
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


def false_alarm(task: tuple[int, int]) -> tuple[bool, bool, bool]:
    """(any claim of a difference, the same without correction, a worse verdict) on two runs of one model."""
    probes, seed = task
    fit = fits.Compare(rounds=200)(*runs(SHARE, SHARE, probes, seed))
    claims = {"better", "worse", "different"}
    alarm = fit.same_model is False or any(q.verdict in claims for q in fit.questions)
    return alarm, any(q.p < 0.05 for q in fit.questions), fit.verdict == "worse"


def seen(task: tuple[int, int]) -> tuple[bool, bool]:
    """(worse is said of the whole score, any score question is worse) of a run with ten points less recall."""
    documents, seed = task
    fit = fits.Compare(times=(), rounds=200)(*runs(SHARE, SHARE - DROP, documents, 50_000 + seed))
    return fit.questions[0].verdict == "worse", fit.verdict == "worse"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 pairs of runs each")
    parser.add_argument("--runs", type=int, help="pairs of runs each (default 1,000)")
    parser.add_argument("--probes", type=int, default=60, help="probes a run for the false alarms (default 60)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    args = parser.parse_args()
    count = args.runs or (40 if args.quick else 1000)
    # with every question that Compare asks of such runs: the whole, four lengths, answers, first tokens
    plan = fits.PlanForDifference(difference=DROP, share=SHARE, together=TOGETHER, questions=7)()
    assert plan.documents is not None
    with ProcessPoolExecutor(args.workers) as pool:
        alarms = list(pool.map(false_alarm, [(args.probes, s) for s in range(count)], chunksize=10))
        power = list(pool.map(seen, [(plan.documents, s) for s in range(count)], chunksize=5))
    slack = 2 * math.sqrt(0.05 * 0.95 / count) if args.quick else 0.0
    alarm, uncorrected, worse = (float(np.mean(column)) for column in zip(*alarms, strict=True))
    whole, some = (float(np.mean(column)) for column in zip(*power, strict=True))
    bars = [
        {"name": "false alarms on two runs of one model, any question", "value": alarm, "limit": 0.05 + slack,
         "holds": alarm <= 0.05 + slack},
        {"name": "power against ten points at the planned n", "value": whole, "limit": 0.8 - 2 * slack,
         "holds": whole >= 0.8 - 2 * slack},
    ]  # fmt: skip
    result = {
        "pairs of runs": count, "probes": args.probes, "planned documents": plan.documents,
        "false 'worse' verdicts": worse, "peer: false alarms without correction": uncorrected,
        "power of the verdict over all score questions": some, "bars": bars,
    }  # fmt: skip
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for key, value in result.items():
            if key != "bars":
                print(f"{key}: {value}")
        for bar in bars:
            mark = "holds" if bar["holds"] else "MISSED"
            print(f"{bar['name']:54} {bar['value']:.3f} limit {bar['limit']:.3f}  {mark}")
    return 0 if all(bar["holds"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
