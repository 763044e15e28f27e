"""The static site of all releases: opens from disk, needs no network and no script, fits a phone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bunny_probe.errors import UsageError
from bunny_probe.measures import Measured, amount
from bunny_probe.releases.history import summaries_of
from bunny_probe.releases.index import Entry, Index
from bunny_probe.releases.job import JOB, REPORT, read_json
from bunny_probe.releases.places import folder_name
from bunny_probe.releases.trend import Point, Trend, trend_svg

__all__ = ["GATE", "build_site"]

GATE = "gate.json"  # in a run's folder: what the gate said last
_MARK = ".bunny-site"  # tells our own folder from a user's
_TEMPLATES = Path(__file__).resolve().parent / "templates"


@dataclass(frozen=True, slots=True)
class Report:
    notebook: str
    href: str  # from the site's root; empty when there is none
    state: str
    error: str


@dataclass(frozen=True, slots=True)
class Page:
    """A run as the site shows it."""

    entry: Entry
    href: str
    summaries: dict[str, dict[str, Any]]
    metrics: dict[str, list[Measured]]
    reports: dict[str, list[Report]]
    environment: dict[str, Any]
    gate: dict[str, Any]
    previous: dict[str, str]  # endpoint → release


def build_site(index: Index, out: Path) -> Path:
    """Write the site into `out` and give its index.html. What an earlier build left there is replaced.

    Raises UsageError when `out` holds something else, is a file, or cannot be written.
    """
    import jinja2

    try:
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out} is a file: name a folder")
        if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
            raise UsageError(f"{out} holds other files: name an empty folder")
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(out / "runs", ignore_errors=True)
        (out / _MARK).write_text("made by bunny-probe site; replaced by the next one\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}") from None
    pages = [_page(index, entry, out) for entry in index.entries()]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "url": lambda text: quote(str(text)),
        "value": Measured.text,
        "interval": _interval,
        "day": lambda text: str(text)[:16].replace("T", " "),
    }
    shared = {"style": (_TEMPLATES / "site.css").read_text("utf-8"), "baseline": index.baseline() or ""}
    newest = pages[::-1]
    _write(
        out / "index.html",
        environment.get_template("index.html.j2").render(
            shared, pages=newest, trends=_trends(pages), draw=trend_svg, up="", title="Releases"
        ),
    )
    for page in pages:
        _write(
            out / page.href,
            environment.get_template("release.html.j2").render(
                shared, page=page, up="../", title=f"Release {page.entry.release}"
            ),
        )
    return out / "index.html"


def _page(index: Index, entry: Entry, out: Path) -> Page:
    folder = index.root / entry.folder
    summaries = summaries_of(index.root, entry)
    own = f"runs/{entry.id}"
    reports: dict[str, list[Report]] = {}
    for endpoint in entry.endpoints:
        for notebook in entry.notebooks:
            place = folder / folder_name(endpoint) / notebook
            reports.setdefault(endpoint, []).append(
                _report(place, notebook, f"{own}/{folder_name(endpoint)}", out)
            )
    before = {endpoint: index.before(entry, endpoint) for endpoint in entry.endpoints}
    return Page(
        entry=entry,
        href=f"{own}.html",
        summaries=summaries,
        metrics={
            name: [Measured(**told) for told in summary["metrics"].values()]
            for name, summary in summaries.items()
        },
        reports=reports,
        environment=_read(folder / "environment.json"),
        gate=_read(folder / GATE),
        previous={endpoint: found.release for endpoint, found in before.items() if found},
    )


def _report(place: Path, notebook: str, target: str, out: Path) -> Report:
    job = _read(place / JOB)
    href = ""
    if (place / REPORT).exists():
        href = f"{target}/{notebook}.html"
        (out / href).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / REPORT, out / href)
    return Report(notebook, href, str(job.get("state", "not run")), str(job.get("error", "")))


def _trends(pages: Sequence[Page]) -> dict[str, list[Trend]]:
    """Endpoint → its metrics over all runs with a value."""
    found: dict[str, dict[str, list[Point]]] = {}
    for page in pages:
        for endpoint, metrics in page.metrics.items():
            for told in metrics:
                if told.value is not None or told.probed_to is not None:
                    points = found.setdefault(endpoint, {}).setdefault(told.name, [])
                    points.append(Point(page.entry.release, page.entry.id, told))
    return {
        endpoint: [
            Trend(endpoint, name, points[-1].told.title, points[-1].told.unit, points[-1].told.direction,
                  tuple(points))
            for name, points in metrics.items()
        ]
        for endpoint, metrics in sorted(found.items())
    }  # fmt: skip


def _interval(told: Measured) -> str:
    if told.value is None:
        return told.reason or "not known"
    return f"{amount(told.low, told.unit, bare=True)} to {amount(told.high, told.unit, bare=True)}"


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except (OSError, json.JSONDecodeError):
        return {}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
