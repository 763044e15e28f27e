"""Does the gate find a planted regression, and let the same model pass, over real HTTP?

    python benchmarks/release_gate.py [--quick] [--folder DIR] [--json FILE]

Each round asks the phantom the same suite four times, each time with fresh answers and fresh times: as it was,
the same again, with ten points less recall, and with 30 % more time. The first is the release before, and each
of the others is held to it by the default rules. In `--folder` the campaigns are kept: started again, those
that are done are not asked again. Exit code 0: every bar holds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.campaign import load_plan, observe, score_run
from bunny_probe.phantom import Behaviour, Latency, PhantomProcess
from bunny_probe.releases import Side, judge, load_rules
from bunny_probe.runs import frame
from bunny_probe.targets import Target

if TYPE_CHECKING:
    import pandas as pd

SUITE = """
name = "gate"
description = "One length"
seed = 3

[[probe]]
family = "length"
task = "single"
lengths = [{length}]
samples = {samples}
"""
USUAL_TIME = Latency(base=0.6, ttft_spread=0.1)  # seconds; long enough that a busy machine adds little
USUAL = Behaviour(name="gate", recall=0.95, latency=USUAL_TIME)
AFTER = {
    "same": USUAL,
    "recall": replace(USUAL, recall=0.85),
    "slower": replace(USUAL, latency=replace(USUAL_TIME, base=0.78)),
}
TITLES = {"same": "the same phantom", "recall": "10 points of recall", "slower": "30 % on every time"}


def ask(behaviour: Behaviour, suite: Path, run: Path) -> pd.DataFrame:
    """The frame of one campaign against the phantom, which runs in a process of its own."""
    if not run.with_suffix(".parquet").exists():
        with PhantomProcess(behaviour) as phantom:
            target = Target(endpoint=phantom.url, model=phantom.model)
            observe(load_plan(suite), target, run, concurrency=8, mode="none")
        score_run(run)
        frame(run).to_parquet(run.with_suffix(".parquet"))
        run.unlink()
    import pandas as pd

    return pd.read_parquet(run.with_suffix(".parquet"))


def rounds(count: int, suite: Path, few: Path, folder: Path) -> Iterator[dict[str, list[str]]]:
    """By what was changed: the metrics that blocked. `few`: a third of the suite, enough for a time."""
    rules = load_rules()
    for number in range(count):
        before = Side("before", ask(replace(USUAL, seed=100 * number), suite, folder / f"{number}-before.db"))
        told: dict[str, list[str]] = {}
        for i, (name, behaviour) in enumerate(AFTER.items(), 1):
            seeded = replace(behaviour, seed=100 * number + i)
            asked = suite if name == "recall" else few
            after = Side("after", ask(seeded, asked, folder / f"{number}-{name}.db"))
            told[name] = [
                check.metric for check in judge(rules, "phantom", after, {"previous": before}) if check.blocks
            ]
        print(f"round {number + 1} of {count}: {told}", file=sys.stderr, flush=True)
        yield told


@contextmanager
def place(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 rounds at 2,048 tokens")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=600, help="documents a campaign")
    parser.add_argument("--length", type=int, default=32_768, help="prompt tokens")
    parser.add_argument("--folder", type=Path, help="where campaigns are kept, so that one can go on later")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    count, length = (2, 2048) if given.quick else (given.rounds, given.length)
    begun = time.monotonic()
    with place(given.folder) as folder:
        suite = folder / "gate.toml"
        suite.write_text(SUITE.format(length=length, samples=given.samples), "utf-8")
        few = folder / "few.toml"
        few.write_text(SUITE.format(length=length, samples=given.samples // 3), "utf-8")
        told = list(rounds(count, suite, few, folder))
    bars: list[dict[str, Any]] = []
    for name, title in TITLES.items():
        blocked = sum(bool(found[name]) for found in told)
        wanted = 0 if name == "same" else count
        bars.append({"bar": title, "refused": blocked, "of": count, "holds": blocked == wanted})
        verdict = "holds" if blocked == wanted else "FAILS"
        print(f"{title} at {length:,} tokens: refused {blocked} of {count}, wanted {wanted}: {verdict}")
    print(
        f"{4 * count} campaigns, half of them of {given.samples} documents and half of {given.samples // 3}, "
        f"in {time.monotonic() - begun:.0f} s"
    )
    if given.json:
        given.json.write_text(json.dumps({"length": length, "samples": given.samples, "bars": bars}, indent=1))
    return 0 if all(bar["holds"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
