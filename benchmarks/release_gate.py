"""Does the gate find a planted regression, and let the same model pass, over real HTTP?

    python benchmarks/release_gate.py [--rounds 20]

Asks the phantom the same suite again and again: the same truth with fresh answers and fresh times each round,
then ten points less recall at the longer length, then 30 % more time. Prints how often the default rules block.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bunny_probe.campaign import Target, load_plan, observe, score_run
from bunny_probe.phantom import Behaviour, Latency, PhantomProcess
from bunny_probe.releases import Side, judge, load_rules
from bunny_probe.runs import frame

if TYPE_CHECKING:
    import pandas as pd

SUITE = """
name = "gate"
description = "Two lengths"
seed = 3

[[probe]]
family = "length"
task = "single"
lengths = [{lengths}]
samples = {samples}
"""


def ask(behaviour: Behaviour, suite: Path, folder: Path, number: int) -> pd.DataFrame:
    """The frame of one campaign against the phantom, which runs in a process of its own."""
    path = folder / f"{number}.db"
    with PhantomProcess(behaviour) as phantom:
        observe(
            load_plan(suite),
            Target(endpoint=phantom.url, model=phantom.model),
            path,
            concurrency=4,
            mode="none",
        )
    score_run(path)
    return frame(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=300, help="documents at each length")
    parser.add_argument("--lengths", default="400, 800")
    given = parser.parse_args()
    longest = max(int(text) for text in given.lengths.split(","))
    usual = Behaviour(name="gate", recall=0.95, latency=Latency(base=0.02, ttft_spread=0.1))
    changed = {
        "the same": usual,
        "10 points of recall at the longest": replace(usual, recall=f"0.95 - 0.1 * (L > {0.9 * longest:.0f})"),
        "30 % on every time": replace(usual, latency=Latency(base=0.026, ttft_spread=0.1)),
    }
    rules = load_rules()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite = folder / "gate.toml"
        suite.write_text(SUITE.format(lengths=given.lengths, samples=given.samples), "utf-8")
        number, begun = 0, time.monotonic()
        for title, behaviour in changed.items():
            refused: list[str] = []
            for round_ in range(given.rounds):
                sides = [
                    Side(text, ask(replace(truth, seed=2 * round_ + i), suite, folder, number + i))
                    for i, (text, truth) in enumerate((("before", usual), ("after", behaviour)))
                ]
                number += 2
                checks = judge(rules, "phantom", sides[1], {"previous": sides[0]})
                blocking = [check.metric for check in checks if check.blocks]
                refused += [" ".join(blocking)] if blocking else []
            print(
                f"{title}: refused {len(refused)} of {given.rounds}"
                + (f" ({'; '.join(refused)})" if refused else "")
            )
        print(f"{number} campaigns in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
