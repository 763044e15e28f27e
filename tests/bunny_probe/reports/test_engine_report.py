"""The engine's report on planted answers and figures, and on an endpoint whose memory is not ours to set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_pages import caught, frame_of, study_of

from bunny_probe import bundled_engine
from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.reports import diagnose, engine_bsr, engine_costs, engine_window
from bunny_probe.reports.engine_policies import Bench, Truth

TRUTH = Truth(length=592, block=128, visible=208, whole_to=120, gone_from=165, first_block=430)
SUITE = """
name = "distances"
description = "Single facts"
seed = 3
[[probe]]
family = "position"
task = "from_end"
lengths = [400]
samples = 8
params = { distances = [64] }
[[probe]]
family = "position"
task = "from_end"
lengths = [400]
samples = 8
params = { distances = [180] }
"""


def answered(policy: str, found: dict[int, float]) -> Any:
    """Twelve documents, a fact at each distance, found or not."""
    rows = [
        {
            "family": "position", "task": "from_end", "variant": f"{distance} from the end", "score": score,
            "label": "hit" if score else "miss", "cluster": f"d{document}",
            "probe_id": f"{distance}/{document}", "length_tokens": 592,
            "entropy_low": 0.1, "entropy_high": 0.2, "tokens_traced": 4,
            "text": f"{policy if not score else 'right'}", "first_entropy_low": 0.1, "first_entropy_high": 0.2,
        }
        for distance, score in found.items() for document in range(12)
    ]  # fmt: skip
    return study_of(frame_of(rows))


def cost(name: str, policy: str, length: int, memory: float, time: float, **more: Any) -> dict[str, Any]:
    base = {"name": name, "policy": policy, "form": None, "bits": 8, "block": None, "length": length}
    figures = {
        "bytes": int(1e6 * memory),
        "stored_bytes": int(1e5 * memory),
        "bytes_of_full": memory,
        "token_ms": 10 * time,
        "token_of_full": time,
    }
    return {**base, **figures, "prompt_ms": time, "prompt_of_full": time, **more}


def costs() -> dict[str, Any]:
    """A bench's figures, planted."""
    rows = [
        cost("full", "full", 4096, 1, 1),
        cost("bsr kv8", "bsr", 4096, 0.4, 3, form="kv", block=512),
        cost("window", "window", 4096, 0.3, 0.7, block=512),
    ]
    layers = [
        {
            "layer": layer, "first_4_tokens": 0.3, "newest_3_blocks": 0.5, "blocks_between": 0.15,
            "steps_needing_one": 0.9, "heads_needing_one": 0.4, "blocks_for_nine_tenths": 3.0,
        }
        for layer in range(4)
    ]  # fmt: skip
    return {
        "model": "m", "device": "cpu", "dtype": "float32", "threads": 2, "machine": "a processor",
        "when": "2026-11-30T00:00:00+00:00", "quick": True, "stored_form": ["kv", "why"], "forms": rows,
        "blocks": [rows[0], *(cost(f"bsr {b}", "bsr", 4096, b / 1024, 256 / b, block=b) for b in (128, 512))],
        "locality": {
            "length": 4096, "steps": 8, "block": 512, "blocks_between": 4, "needed_from": 0.1,
            "layers": layers, "mean": {k: v for k, v in layers[0].items() if k != "layer"},
            "top": [{"most": 1, "covered": 0.92, "best_possible": 0.93}],
        },
        "long": {"layers": 2, "dtype": "float32", "rows": rows},
        "notes": ["auto stores kv: why.", "Where BSR loses: in 1 of 2 rows."],
    }  # fmt: skip


def page(monkeypatch: pytest.MonkeyPatch, opened: Bench) -> str:
    shown = caught(monkeypatch, engine_bsr, engine_costs, engine_window, diagnose)
    for name in engine_bsr.__all__:
        if name not in {"open_bench"}:
            getattr(engine_bsr, name)(opened)
    return "\n".join(shown)


def test_a_planted_window_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate's interval meets the truth, the window is shown to cost recall, bsr is not."""
    near, far = {48: 1.0, 112: 1.0}, {176: 0.0, 232: 0.0, 304: 0.0}
    everywhere = dict.fromkeys((*near, *far), 1.0)
    studies = {
        "full": answered("full", everywhere),
        "bsr, 8 bits": answered("bsr", everywhere),
        "window": answered("window", {**near, **far}),
    }
    text = page(monkeypatch, Bench(studies, costs(), TRUTH, "m", "1.10", ""))
    assert "its interval meets the truth" in text
    assert "Shown to cost recall there: window." in text
    assert "bsr, 8 bits: 60 of 60" in text
    assert "Where BSR loses" in text
    assert "forgotten" in text
    assert "nan" not in text


def test_a_window_elsewhere_is_not_called_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that hold twice as far as the blocks allow: the interval misses, and that is said."""
    found = {48: 1.0, 112: 1.0, 176: 1.0, 232: 1.0, 304: 1.0, 400: 0.0}
    studies = {"full": answered("full", found), "window": answered("window", found)}
    truth = Truth(length=592, block=128, visible=208, whole_to=60, gone_from=100, first_block=430)
    assert "its interval misses the truth" in page(monkeypatch, Bench(studies, None, truth, "m", "", ""))


def test_another_endpoint_is_asked_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No section fails; those on memory say what they need; recall by distance is there."""
    (tmp_path / "distances.toml").write_text(SUITE, "utf-8")
    with Phantom([Behaviour(name="phantom-steady")]) as phantom:
        opened = engine_bsr.open_bench(
            endpoint=phantom.url, suite=str(tmp_path / "distances.toml"), run_path=str(tmp_path / "run.db")
        )
    text = page(monkeypatch, opened)
    assert text.count("needs the bundled engine") >= 5
    assert "Facts found of those answered, by distance" in text
    assert "phantom, a simulated endpoint" in text


@pytest.mark.parametrize("wrong", ["bsr; sliding", " ; "])
def test_policies_that_are_none_are_named(tmp_path: Path, wrong: str) -> None:
    """Before anything is started."""
    with pytest.raises(UsageError, match="policies"):
        engine_bsr.open_bench(policies=wrong, run_path=str(tmp_path / "run.db"))


def test_what_the_engine_refuses_is_told() -> None:
    """The engine's own last words come with the error."""
    with pytest.raises(UsageError, match="No such command 'nothing'"):
        bundled_engine.run_engine("nothing")
