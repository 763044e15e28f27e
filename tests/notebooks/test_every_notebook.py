"""Every bundled notebook runs as a release runs it, and its page can be read: see `make notebooks`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pages import WIDTHS, faults, images
from playwright.sync_api import Browser

from bunny_probe.resources import resource_dir

NOTEBOOKS = sorted(path.stem for path in resource_dir("notebooks").glob("*.ipynb"))
CANARY = b"sk-canary-b51f07c2aa94"

pytestmark = [pytest.mark.notebooks, pytest.mark.timeout(900)]


def jobs(release: Path) -> list[dict[str, Any]]:
    """What became of each notebook: `release`/<run>/<endpoint>/<notebook>/job.json."""
    return [json.loads(path.read_text("utf-8")) for path in sorted(release.glob("*/*/*/job.json"))]


def test_each_runs_on_the_phantom(on_the_phantom: Path) -> None:
    """All are done, none failed, and the release's name is as typed."""
    told = jobs(on_the_phantom / "1.10")
    assert sorted(job["notebook"] for job in told) == NOTEBOOKS
    assert {job["state"] for job in told} == {"done"}
    assert (on_the_phantom / "2024_01").is_dir()


def test_no_file_holds_a_key(on_the_phantom: Path) -> None:
    """The key that the phantom demanded, and another in the environment, are in nothing that was written."""
    written = [path for path in on_the_phantom.rglob("*") if path.is_file()]
    assert len(written) > 60
    assert [path for path in written if CANARY in path.read_bytes()] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_the_phantom_can_be_read(on_the_phantom: Path, browser: Browser, width: int) -> None:
    """No picture missing or without words, no console error, nothing sticks out, WCAG AA: site and reports."""
    pages = list((on_the_phantom / "site").rglob("*.html"))
    assert {page.stem for page in pages} > {*NOTEBOOKS, "index"}
    assert [fault for page in pages for fault in faults(browser, page, width)] == []


@pytest.mark.model
def test_the_default_model_fills_its_notebooks(on_the_model: Path) -> None:
    """Those that show a real model's behaviour run on SmolLM2, from the engine's start to the page."""
    told = jobs(on_the_model / "smollm2")
    assert {job["state"] for job in told} == {"done"}
    assert {job["notebook"] for job in told} == {"diagnose", "engine_bsr", "position_recall"}


@pytest.mark.model
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_of_the_default_model_can_be_read(on_the_model: Path, browser: Browser, width: int) -> None:
    """The same promises on what a real model answered, and each page shows pictures."""
    pages = sorted(on_the_model.glob("*/*/*/*/report.html"))
    assert [fault for page in pages for fault in faults(browser, page, width)] == []
    assert all(images(browser, page) for page in pages)


def test_the_look_sees_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    """A page with each fault is told with each fault: the checks above can fail."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<html lang=en><title>bad</title><main><h1>bad</h1><div style='width:2000px;height:9px'>wide</div>"
        "<img src=data:image/png;base64,AAAA><img src=missing.png alt=lost>"
        "<p style='color:#ccc;background:#fff'>pale</p><div class=fault>This part failed</div>"
        "<script>console.error('loud'); throw new Error('thrown')</script></main></html>",
        "utf-8",
    )
    told = " ".join(faults(browser, page, 380))
    for fault in (
        "sideways",
        "sticks out",
        "missing",
        "no words",
        "loud",
        "thrown",
        "color-contrast",
        "failed",
    ):
        assert fault in told, fault
