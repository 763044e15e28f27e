"""The claims audit: the sample table's verdicts, rows that a run decides, and hostile tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bunny_probe.cost.claims import Found, Row, audit, read_claims
from bunny_probe.errors import WorksheetError
from bunny_probe.resources import resource_dir


def _sample() -> str:
    return (resource_dir("data") / "claims" / "sample_vendor.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    return {row.id: row for row in audit(read_claims(_sample())).rows}


@pytest.mark.parametrize(
    ("claim", "verdict", "computed"),
    [
        ("kv_32k", "holds", "26.84 GB"),
        ("kv_1m", "close", "859.0 GB"),
        ("decay_1m", "fails", "0.08522"),
        ("memory_64k", "contradict", "24.90 GB"),
        ("price", "fails", "0.0003072 USD"),
        ("blocks", "holds", "65,536 tokens"),
        ("prefill_floor", "holds", "10.24 ms"),
        ("prefill_ratio", "holds", "312.5"),
        ("growth", "fails", "linear"),
        ("answers_64k", "needs measurement", "not measured"),
        ("ttft_64k", "needs measurement", "not measured"),
        ("recall_64k", "needs measurement", "not measured"),
    ],
)
def test_the_sample_table_gets_the_verdicts_that_arithmetic_gives(
    rows: dict[str, Row], claim: str, verdict: str, computed: str
) -> None:
    """Each row of the sample is pinned: verdict and computed number."""
    assert (rows[claim].verdict, rows[claim].computed) == (verdict, computed)


def test_a_known_slip_is_named(rows: dict[str, Row]) -> None:
    """The wrong price is traced to the prompt's price used for all tokens."""
    assert "the prompt's price for all tokens" in rows["price"].reason


def test_the_audit_counts_its_verdicts() -> None:
    """The sentence gives every kind with its number, and the rows sum to the table."""
    found = audit(read_claims(_sample()))
    told = (
        "Of 12 claims, 4 hold, 1 is close but not equal, 3 fail, 1 contradicts another claim "
        "and 3 are to be measured."
    )
    assert found.sentence() == told
    assert len(found.table()) == 12
    assert found.to_json()["rows"][1]["verdict"] == "close"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Found(2.5, 2.1, 3.1, 200, "p95"), "holds"),
        (Found(4.0, 3.3, 5.0, 200, "p95"), "fails"),
        (Found(3.1, 2.8, 3.6, 30, "p95"), "needs measurement"),
        (Found(2.0, 1.5, None, 12, "p95"), "needs measurement"),
    ],
)
def test_a_measured_row_is_decided_by_its_interval(found: Found, verdict: str) -> None:
    """At most 3.2 s: the whole interval must lie on one side, an open end never proves the claim."""
    rows = {row.id: row for row in audit(read_claims(_sample()), {"ttft_64k": found}).rows}
    assert rows["ttft_64k"].verdict == verdict
    assert f"n = {found.n}" in rows["ttft_64k"].computed


def test_a_claimed_curve_becomes_a_figure_to_measure() -> None:
    """0.85·exp(-2.3e-6·65,536) = 0.731: within ±5 % holds, wholly outside fails."""
    table = read_claims(_sample())
    assert next(c for c in table.claims if c.id == "recall_64k").claimed == pytest.approx(0.7311, abs=1e-4)
    for low, high, verdict in [(0.71, 0.75, "holds"), (0.3, 0.5, "fails"), (0.6, 0.8, "needs measurement")]:
        found = {"recall_64k": Found((low + high) / 2, low, high, 100, "score")}
        assert {r.id: r.verdict for r in audit(table, found).rows}["recall_64k"] == verdict


def _row(**keys: object) -> str:
    import json

    lines = [
        f"{key} = {json.dumps(value) if not isinstance(value, dict) else _inline(value)}"
        for key, value in keys.items()
    ]
    return "[[claim]]\n" + "\n".join(lines)


def _inline(table: dict[str, object]) -> str:
    import json

    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + " }"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("claim = 3", "at least one [[claim]]"),
        (_row(says="x"), "'formula' is needed"),
        (_row(says="x", formula="a", claimed="3 GB", typ="value"), "Did you mean 'type'?"),
        (_row(says="x", formula="a", where={"a": "3 s"}, claimed="3 GB"), "is s, but the claim '3 GB' is B"),
        (_row(says="x", formula="a + b", where={"a": "3 s"}, claimed="3 s"), "'b' has no value"),
        (_row(says="x", formula="__import__('os')", claimed="3"), "cannot read"),
        (_row(says="x", formula="a / b", where={"a": "3", "b": "0"}, claimed="3"), "not a finite number"),
        (_row(says="x", formula="9^9^9^9", claimed="3"), "not a finite number"),
        (_row(says="x", formula="a", where={"a": "3 furlongs"}, claimed="3"), "unknown unit 'furlongs'"),
        (_row(says="x", type="measured", measure="speed", claimed="3 s"), "unknown measure 'speed'"),
        (_row(says="x", type="measured", measure="ttft_p95", claimed="3 GB"), "'3 GB' is B, not s"),
        (_row(says="x", formula="a", where={"a": "3"}, claimed="3", kilo=1000.5), "1000 or 1024"),
        (
            "[[claim]]\nsays = 'x'\nformula = '" + "(" * 60 + "1" + ")" * 60 + "'\nclaimed = '1'",
            "nested more than",
        ),
    ],
)
def test_a_faulty_table_is_told_with_the_row_and_the_way_out(text: str, told: str) -> None:
    """Messages name the file, the row and what is allowed; nothing is guessed."""
    with pytest.raises(WorksheetError, match=r"bad\.toml") as caught:
        read_claims(text, file="bad.toml")
    assert told in str(caught.value)


@given(st.text(alphabet="0123456789.eE+-*/^() abxGBs,;_[]{}'\"\\%$", max_size=60))
def test_no_formula_escapes_as_another_error(formula: str) -> None:
    """Whatever stands in a formula, the answer is a verdict or a WorksheetError."""
    import json

    where = "where = { a = '3', b = '2 GB' }"
    text = f"[[claim]]\nsays = 'x'\nformula = {json.dumps(formula)}\n{where}\nclaimed = '3'"
    try:
        table = read_claims(text)
    except WorksheetError:
        return
    assert audit(table).rows[0].verdict in {"holds", "close", "fails"}
