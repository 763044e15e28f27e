"""Measured inputs from a run's frame: what is counted, in which bands, with how much weight."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bunny_probe.columns import COLUMNS
from bunny_probe.cost import draw, feed, measure, read, yearly
from bunny_probe.cost.measured import effective_trials
from bunny_probe.cost.simulate import Point, total
from bunny_probe.errors import WorksheetError

SHEET = """
[common.traffic]
requests = "1,000 requests/day"
[common.quality.wrong]
error_rate = { measured = "length:wrong" }
compensation = "10 CNY/error"
[common.latency]
sample = { measured = "latency" }
loss = "threshold"
order_share = "10 %"
order_value = "20 CNY/order"
patience = "2 s"
[option.A]
[option.B]
"""


def _frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    """A frame of the run's columns and dtypes; what a row does not name is missing."""
    filled = [
        {"probe_id": f"p{i}", "endpoint": "m at h", "family": "length", "cluster": f"c{i}", "answered": True,
         "timing_valid": True, "score": 1.0, "label": "hit", "latency_s": 1.0, "ttft_s": 0.5, **row}
        for i, row in enumerate(rows)
    ]  # fmt: skip
    frame = pd.DataFrame(filled)

    def column(name: str, dtype: str) -> pd.Series:
        missing = np.nan if dtype == "float64" else pd.NA
        return (frame[name] if name in frame else pd.Series([missing] * len(frame))).astype(dtype)

    return pd.DataFrame({name: column(name, dtype) for name, (dtype, _) in COLUMNS.items()})


def _campaign() -> pd.DataFrame:
    """20 probes at 1K, 4 wrong; 20 at 4K, 10 wrong and slow; 5 failures; 10 stress probes, all wrong."""
    rows: list[dict[str, object]] = []
    for length, wrong, slow in ((1024, 4, 0), (4096, 10, 5)):
        rows += [
            {"prompt_tokens": length, "label": "miss" if i < wrong else "hit", "score": float(i >= wrong),
             "latency_s": 3.0 if i < slow else 1.0}
            for i in range(20)
        ]  # fmt: skip
    rows += [
        {
            "prompt_tokens": 4096,
            "answered": False,
            "score": float("nan"),
            "label": "not_scored",
            "latency_s": float("nan"),
        }
    ] * 5
    rows += [{"prompt_tokens": 1024, "family": "stress", "label": "fail", "score": 0.0}] * 10
    return _frame(rows)


def test_a_failure_is_no_wrong_answer_and_families_stay_apart() -> None:
    """14 of 40 wrong among the length probes, 24 of 50 among all; 5 of 55 without an answer."""
    found = measure(_campaign())
    counts = {kind: (sum(s.hits for s in x), sum(s.trials for s in x)) for kind, x in found.shares.items()}
    assert counts["length:wrong"] == (14, 40)
    assert counts["wrong"] == (24, 50)
    assert counts["no_answer"] == (5, 55)
    assert found.left_out == 5
    assert "24 of 50 scored answers wrong" in found.sentence()


def test_a_worksheet_takes_what_it_asks_for() -> None:
    """The measured share and latencies stand in the formula, weighted as probed or by the traffic."""
    found = measure(_campaign())
    for mix, rate, lost in (
        ("", 14 / 40, 5 / 50),
        ("[length_mix]\n1024 = '90 %'\n4096 = '10 %'\n", 0.23, 0.025),
    ):
        sheet = feed(read(SHEET + mix), "A", found)
        wanted = 1_000 * 365 * (rate * 10 + 0.1 * lost * 20)
        assert float(total(sheet, sheet.option("A"))) == pytest.approx(wanted)
        interval = yearly(sheet, sheet.option("A"), draw(sheet, 1024)).total
        assert interval.low < wanted < interval.high
    at_4k = float(total(sheet, sheet.option("A"), Point(length=4096)))
    assert at_4k == pytest.approx(1_000 * 365 * (0.5 * 10 + 0.1 * 0.25 * 20))


def test_an_option_that_was_not_measured_still_refuses() -> None:
    """Feeding A leaves B waiting, and B says so."""
    sheet = feed(read(SHEET), "A", measure(_campaign()))
    with pytest.raises(WorksheetError, match="waits for"):
        total(sheet, sheet.option("B"))


def test_traffic_beyond_the_measured_lengths_is_told() -> None:
    """The nearest measured length stands in, and the input's note says for how much of the traffic."""
    sheet = read(SHEET + "[length_mix]\n1024 = '40 %'\n65536 = '60 %'\n")
    fed = feed(sheet, "A", measure(_campaign())).option("A")
    notes = [item.note for item in fed.inputs().values() if item.measured]
    assert notes == ["60% of the traffic lies beyond the measured 1,024 to 4,096 tokens, "
                     "where the nearest measured length stands in"]  # fmt: skip
    assert fed.loss is not None
    assert "60% of the traffic" in fed.loss.source


def test_a_label_that_never_came_up_was_seen_zero_times() -> None:
    """wrong_anchor among 40 answers without one: 0 of 40, with an upper limit, and not an error."""
    sheet = feed(read(SHEET.replace("length:wrong", "length:wrong_anchor")), "A", measure(_campaign()))
    item = next(item for item in sheet.option("A").inputs().values() if item.measured)
    assert item.central == 0
    assert 0.01 < float(item.draw(np.array([0.95]))[0]) < 0.2


def test_an_unknown_measure_is_told_with_the_choices() -> None:
    """A typing slip in `measured` is answered with what the run holds."""
    with pytest.raises(WorksheetError, match="unknown measure 'length:wrnog'") as caught:
        feed(read(SHEET.replace("length:wrong", "length:wrnog")), "A", measure(_campaign()))
    assert "length:wrong" in str(caught.value)


def test_thin_bands_of_length_join_their_neighbours() -> None:
    """Natural lengths from 12 to 400 tokens do not become a hundred strata of one trial."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = [{"prompt_tokens": int(n)} for n in rng.integers(12, 400, 60)]
    shares = measure(_frame(rows)).shares["wrong"]
    assert sum(share.trials for share in shares) == 60
    assert min(share.trials for share in shares) >= 10


def test_repeats_of_one_document_count_for_less() -> None:
    """Ten identical answers about one document are one trial; independent rows count in full."""
    x = np.repeat([0.0, 1.0, 0.0, 1.0, 1.0], 10)
    same = np.repeat(np.array(list("abcde"), dtype=object), 10)
    assert effective_trials(x, same) == pytest.approx(5, rel=0.3)
    assert effective_trials(x, np.arange(50).astype(object)) == 50


def test_two_endpoints_need_a_name() -> None:
    """A run of several endpoints is not averaged in silence."""
    frame = _frame([{"endpoint": "a"}, {"endpoint": "b"}])
    with pytest.raises(WorksheetError, match="Choices: a, b"):
        measure(frame)
    assert measure(frame, "a").rows == 1
