"""Format checkers: is the answer in the form that was asked for?"""

from __future__ import annotations

from bunny_probe.scores.formats import counts, data, layout, lists, symbols
from bunny_probe.scores.formats.base import CHECKERS, Checker, Verdict

__all__ = ["CHECKERS", "Checker", "Verdict", "counts", "data", "layout", "lists", "symbols"]
