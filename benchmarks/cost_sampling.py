"""Does quasi-random sampling pay in the cost worksheet? Scatter of the 90 % interval's ends between seeds.

    python benchmarks/cost_sampling.py [--seeds 20]

For each way of drawing and each number of draws: the standard deviation, over seeds, of the lower and upper end
of the yearly total's 90 % interval, in per cent of the interval's width, and the time per worksheet. The limit
to compare with is what anyone would notice: 1 % of the width.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bunny_probe import cost
from bunny_probe.cost.simulate import draw, quantiles, total
from bunny_probe.resources import resource_dir


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    print(f"{'worksheet':16} {'method':11} {'draws':>7} {'P5 ±':>7} {'P95 ±':>7} {'ms':>8}")
    for name in ("legal_assistant", "own_or_buy"):
        sheet = cost.read((resource_dir("data") / "cost" / f"{name}.toml").read_text("utf-8"), file=name)
        option = sheet.options[0]
        draw(sheet, 128)  # the first call pays the imports
        for method in ("random", "antithetic", "sobol"):
            for draws in (1_024, 4_096, 16_384):
                ends, began = [], time.perf_counter()
                for seed in range(seeds):
                    quantiles.cache_clear()
                    costs = total(sheet, option, draw(sheet, draws, seed=seed, method=method))
                    ends.append(np.quantile(costs, [0.05, 0.95]))
                took = (time.perf_counter() - began) / seeds
                low, high = np.std(ends, axis=0) / np.ptp(np.mean(ends, axis=0))
                print(f"{name:16} {method:11} {draws:7,} {low:7.2%} {high:7.2%} {took * 1e3:8.1f}")


if __name__ == "__main__":
    main()
