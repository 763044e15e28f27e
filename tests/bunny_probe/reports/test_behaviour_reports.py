"""The reports on length, position and stress: they say what the data hold, and refuse in words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from report_pages import caught, frame_of, study_of

from bunny_probe.reports import diagnose, length_decay, position_recall, stress

MODULES = (length_decay, position_recall, stress)
SKIPPED = {"answers", "length_check", "outcomes"}  # of the diagnose report, tested there


def sections(module: Any) -> list[Any]:
    return [getattr(module, name) for name in module.__all__ if name not in SKIPPED]


def thin_frames() -> dict[str, pd.DataFrame]:
    """Nothing, one answer of each family, and failures alone."""
    one = [
        {"family": family, "task": task, "variant": variant, "length_tokens": 512, "depth": 0.5, "score": 1.0}
        for family, task, variant in (
            ("length", "single", ""), ("position", "single", ""), ("position", "from_end", "128 from the end"),
            ("position", "multi_key", "near"), ("stress", "conflict", "rule/right_first"),
            ("stress", "format", "casing/upper"), ("stress", "negation", "with"), ("stress", "edges", "digits"),
            ("stress", "perturbation", "typo/0.2"),
        )
    ]  # fmt: skip
    lost = {
        "outcome": "server_error",
        "answered": False,
        "score": None,
        "label": "not_scored",
        "latency_s": None,
    }
    return {
        "empty": frame_of([]),
        "one": frame_of(one),
        "failed": frame_of([{**row, **lost} for row in one * 3]),
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
@pytest.mark.parametrize("kind", ["empty", "one", "failed"])
def test_thin_data_are_refused_in_words(module: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No section raises, each says something, and nothing shows a missing number as one."""
    page = caught(monkeypatch, module, diagnose)
    study = study_of(thin_frames()[kind])
    for section in sections(module):
        before = len(page)
        section(study)
        assert len(page) > before, section.__name__
    text = "\n".join(page)
    assert "nan" not in text.lower().replace("nanosecond", "")
    assert "None" not in text


def length_rows(recall: dict[int, float], n: int = 40) -> list[dict[str, Any]]:
    draw = random.Random(3)
    rows: list[dict[str, Any]] = [
        {
            "family": "length", "task": "single", "length_tokens": length,
            "score": float(draw.random() < share), "cluster": f"{length}-{i}",
            "latency_s": 0.1 + length / 1e4 + draw.random() / 10,
        }
        for length, share in recall.items()
        for i in range(n)
    ]  # fmt: skip
    rows += [
        {
            "family": "length", "task": "several", "scorer": "items", "length_tokens": length,
            "score": draw.choice([0.0, 1 / 3, 2 / 3, 1.0]), "cluster": f"s{length}-{i}", "latency_s": 0.2,
        }
        for length in recall
        for i in range(10)
    ]  # fmt: skip
    return rows


def test_a_cliff_is_found_and_the_panels_tell_all_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fall between 2K and 4K gives a window there; items, latency and spread stand on the same page."""
    page = caught(monkeypatch, length_decay, diagnose)
    study = study_of(frame_of(length_rows({512: 0.95, 1024: 0.95, 2048: 0.95, 4096: 0.1, 8192: 0.1})))
    for section in sections(length_decay):
        section(study)
    text = "\n".join(page)
    assert "Four panels over prompt length" in text
    assert "Effective window, 85% of the base" in text
    from bunny_probe.fits import Window

    window = Window()(study.frame[study.frame["task"] == "single"]).window
    assert window is not None
    assert window.value is not None
    assert 1024 < window.value < 4096
    assert f"{window.value:,.0f}" in text
    assert "P95" in text


def test_slow_and_bad_together_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the slowest tenth is always wrong, the joint tail says so, with its n."""
    rows = [
        {
            "family": "length", "task": "single", "length_tokens": 1024, "cluster": str(i),
            "score": float(i % 10 != 0), "latency_s": 9.0 if i % 10 == 0 else 0.5 + i / 1000,
        }
        for i in range(100)
    ]  # fmt: skip
    page = caught(monkeypatch, length_decay)
    length_decay.worst_tenth(study_of(frame_of(rows)))
    text = "\n".join(page)
    assert "whoever waited longest got the worst answer" in text
    assert "n = 10" in text


def position_rows(found: Any, documents: int = 24) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for length in (1024, 2048):
        for i in range(documents):
            for depth in (0.05, 0.25, 0.5, 0.75, 0.95):
                hit = found(length, depth)
                rows.append(
                    {
                        "family": "position", "task": "single", "length_tokens": length, "depth": depth,
                        "score": float(hit), "label": "hit" if hit else "wrong_anchor", "cluster": f"d{i}",
                    }
                )  # fmt: skip
        rows += [
            {
                "family": "position", "task": "from_end", "length_tokens": length, "cluster": f"e{i}",
                "variant": f"{distance} from the end", "score": float(distance < 600),
            }
            for i in range(documents)
            for distance in (0, 128, 256, 512, 900)
        ]  # fmt: skip
    return rows


def test_a_window_is_told_in_tokens_from_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts beyond 600 tokens from the end are lost: the window lies between the distances around it."""
    page = caught(monkeypatch, position_recall, diagnose)
    study = study_of(frame_of(position_rows(lambda length, depth: length * (1 - depth) < 600)))
    for section in sections(position_recall):
        section(study)
    text = "\n".join(page)
    from bunny_probe.fits import Window

    window = Window(axis="from_end")(position_recall.from_end(study)).window
    assert window is not None
    assert window.value is not None
    assert 512 <= window.value <= 900
    assert f"{window.value:,.0f}" in text
    assert "Put what must be found at the end of the context" in text
    assert "worse than a miss" in text


def conflict_rows(pairs: int, *, first: bool) -> list[dict[str, Any]]:
    """A model that always takes the clause that stands first (or last)."""
    return [
        {
            "family": "stress", "task": "conflict", "variant": f"rule/{order}", "cluster": str(i),
            "score": float((order == "right_first") == first), "label": "first_wins" if first else "last_wins",
        }
        for i in range(pairs)
        for order in ("right_first", "right_last")
    ]  # fmt: skip


@pytest.mark.parametrize("first", [True, False])
def test_order_bias_has_a_side(first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that always takes the first clause leans by +1, one that takes the last by -1."""
    page = caught(monkeypatch, stress)
    stress.conflict(study_of(frame_of(conflict_rows(20, first=first))))
    text = "\n".join(page)
    assert ("difference of +1.00" if first else "difference of -1.00") in text
    assert f"leans to the clause that stands {'first' if first else 'last'}" in text


def test_damage_is_a_paired_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typos that always cost the answer are named; spacing that never does is not."""
    rows = [
        {
            "family": "stress", "task": "perturbation", "variant": variant, "cluster": str(i),
            "score": float(variant != "typo/0.6"),
        }
        for i in range(20)
        for variant in ("none/0", "typo/0.2", "typo/0.6", "spacing/0.6")
    ]  # fmt: skip
    page = caught(monkeypatch, stress)
    stress.perturbation(study_of(frame_of(rows)))
    text = "\n".join(page)
    assert "Clean typo before it reaches the model" in text
    assert "-1.00" in text


def test_obeyed_injections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden instructions that were followed are told with their denominator and interval."""
    rows = [
        {
            "family": "stress", "task": "edges", "variant": "hidden_instruction", "cluster": str(i),
            "score": float(i > 2), "label": "pass" if i > 2 else "fail",
        }
        for i in range(10)
    ]  # fmt: skip
    page = caught(monkeypatch, stress)
    stress.edges(study_of(frame_of(rows)))
    assert "obeyed in 3 of 10 answers (30% [" in "\n".join(page)


def test_an_empty_box_is_not_drawn(tmp_path: Path) -> None:
    """Progress of an executed notebook, blank lines and empty preformatted text take no room in a report."""
    import nbformat

    from bunny_probe.reports.html import write_html

    new: Any = nbformat.v4
    blank = '<pre style="white-space:pre;overflow-x:auto;line-height:normal"></pre>\n'
    outputs = [
        new.new_output("display_data", data={"text/html": blank, "text/plain": ""}),
        new.new_output("stream", name="stdout", text="\n\n"),
    ]
    found = {"text/html": '<div class="finding">Seen.</div>', "text/plain": ""}
    seen = [new.new_output("display_data", data=found)]
    cells = [new.new_code_cell("x", outputs=outputs), new.new_code_cell("y", outputs=seen)]
    path = tmp_path / "executed.ipynb"
    nbformat.write(new.new_notebook(cells=cells), path)  # type: ignore[no-untyped-call]
    write_html(path, tmp_path / "report.html", title="t")
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "<pre" not in html
    assert html.count('<div class="output">') == 1
    assert "Seen." in html
