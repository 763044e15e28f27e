"""The cost equation: total = hardware + latency + quality + maintenance, with its uncertainty.

    text (TOML) ──worksheet.read──▶ Worksheet ──(measured.feed)──▶ Worksheet
                                        │  simulate.draw(seed)
                                        ▼
        explain, yearly, difference, tornado, cost_against, break_even, choose ──▶ result records

Everything here is pure: no file is read, no clock and no random state; text, frames and seeds come in.
Result records have `.sentence()`, `.table()` and `.to_json()`. `claims` checks a vendor's table with the same
arithmetic.
"""

from bunny_probe.cost.choice import Choice, choose
from bunny_probe.cost.curves import BreakEven, Curve, break_even, cost_against, grid
from bunny_probe.cost.explanation import Explanation, explain
from bunny_probe.cost.measured import Measured, feed, measure
from bunny_probe.cost.memory import concurrent_requests, kv_cache_bytes, prefill_floor
from bunny_probe.cost.money import money
from bunny_probe.cost.sensitivity import Tornado, tornado
from bunny_probe.cost.simulate import Point, draw
from bunny_probe.cost.totals import Check, Difference, Yearly, check_published, difference, yearly
from bunny_probe.cost.worksheet import Option, Worksheet, read

__all__ = [
    "BreakEven",
    "Check",
    "Choice",
    "Curve",
    "Difference",
    "Explanation",
    "Measured",
    "Option",
    "Point",
    "Tornado",
    "Worksheet",
    "Yearly",
    "break_even",
    "check_published",
    "choose",
    "concurrent_requests",
    "cost_against",
    "difference",
    "draw",
    "explain",
    "feed",
    "grid",
    "kv_cache_bytes",
    "measure",
    "money",
    "prefill_floor",
    "read",
    "tornado",
    "yearly",
]
