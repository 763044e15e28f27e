"""Mean scores by group."""

from __future__ import annotations

import pandas as pd
import pytest

from bunny_probe.fits.groups import Groups
from bunny_probe.fits.proportions import wilson


def _frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "task": ["format"] * 4 + ["edge"] * 3,
            "variant": ["json", "json", "list", "list", "blank", "blank", "flood"],
            "score": [1.0, 0.0, 1.0, 1.0, 1.0, None, None],
            "outcome": ["answered"] * 5 + ["timeout", "empty"],
            "answered": [True] * 5 + [False, False],
            "cluster": list("abcdefg"),
        }
    )


def test_failures_are_beside_and_not_zeros() -> None:
    """A group whose requests failed has its own count and no score."""
    fit = Groups(by=("task", "variant"))(_frame())
    rows = {row.names: row for row in fit.rows}
    assert rows["edge", "blank"].score == 1.0
    assert (rows["edge", "blank"].n, rows["edge", "blank"].asked) == (1, 2)
    assert rows["edge", "flood"].score is None
    assert fit.counts.failed == (("timeout", 1), ("empty", 1)) or fit.counts.failed == (
        ("empty", 1),
        ("timeout", 1),
    )


def test_hits_of_single_documents_have_wilson_intervals() -> None:
    """One trial a document: the interval is Wilson's, to the last digit."""
    row = {row.names: row for row in Groups(by=("task",))(_frame()).rows}["format",]
    low, high = wilson(3, 4)
    assert (row.score, row.low, row.high) == (0.75, pytest.approx(float(low)), pytest.approx(float(high)))


def test_nothing_scored_is_refused() -> None:
    """Empty data and a missing column give a stated refusal, not a traceback."""
    assert Groups()(_frame().iloc[5:]).status == "refused"
    assert Groups()(_frame().iloc[:0]).status == "refused"
    assert "no column 'domain'" in Groups(by=("domain",))(_frame()).reason
    assert "No scores by domain" in Groups(by=("domain",))(_frame()).sentence()


def test_the_table_has_a_column_a_name() -> None:
    """What a person reads carries the names, the interval and both denominators."""
    table = Groups(by=("task", "variant"))(_frame()).table()
    assert list(table.columns) == ["task", "variant", "score", "low", "high", "n", "asked", "clusters"]
    assert len(table) == 4
