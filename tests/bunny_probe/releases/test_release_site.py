"""The site: whole on disk, no script, no network, every figure in words, contrast that can be read."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from releases import file_release, observations

from bunny_probe.errors import UsageError
from bunny_probe.measures import measure_all
from bunny_probe.releases import Index, build_site, gate, load_rules
from bunny_probe.releases.job import write_json
from bunny_probe.releases.site import GATE
from bunny_probe.releases.trend import Point, Trend, trend_svg

HOSTILE = '<script>alert("x")</script> & "1.10"'
VOID = {"meta", "link", "br", "img", "input", "hr", "circle", "path", "polyline"}


class Page(HTMLParser):
    """Counts what a screen reader needs, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [str(given[name]) for name in ("href", "src") if name in given]
        self.ids += [str(given["id"])] if "id" in given else []
        self.refers += [str(given["aria-labelledby"])] if "aria-labelledby" in given else []
        assert not [name for name in given if name.startswith("on")]
        if tag == "img":
            assert given.get("alt")
        if tag == "svg":
            assert given.get("role") == "img"
            assert given.get("aria-labelledby")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three releases, one of a hostile name, one whose process died."""
    file_release(tmp_path, "1.9", {"prod": observations(samples=30)}, started="2026-01-01T00:00:00Z")
    second = file_release(
        tmp_path, HOSTILE, {"prod": observations(samples=30, seed=1), "x/y": observations(samples=30)},
        started="2026-01-02T00:00:00Z",
    )  # fmt: skip
    report = tmp_path / second.folder / "prod" / "diagnose"
    report.mkdir()
    (report / "report.html").write_text("<p>report</p>", "utf-8")
    write_json(report / "job.json", {"state": "done", "error": ""})
    write_json(tmp_path / second.folder / GATE, gate(Index(tmp_path), HOSTILE, load_rules()).to_json())
    file_release(
        tmp_path, "dead", {"prod": observations(samples=30)}, started="2026-01-03T00:00:00Z", state="failed"
    )
    Index(tmp_path).pin("1.9", "now")
    return tmp_path


def test_every_page_is_whole_and_every_link_leads_somewhere(root: Path, tmp_path: Path) -> None:
    """No script, no address outside; landmarks, one heading of the first rank, a skip link that lands."""
    index = build_site(Index(root), tmp_path / "out")
    pages = [path for path in index.parent.rglob("*.html") if path.parent.name in ("out", "runs")]
    assert len(pages) == 4
    for path in pages:
        text = path.read_text("utf-8")
        page = Page(text)
        assert "script" not in page.tags
        assert text.startswith("<!DOCTYPE html>")
        assert '<html lang="en">' in text
        for tag in ("header", "nav", "main", "footer", "h1", "title"):
            assert page.tags.count(tag) == 1 + (tag == "title") * text.count("<svg"), (tag, path)
        assert len(page.ids) == len(set(page.ids))
        assert set(page.refers) <= set(page.ids)
        for link in page.links:
            assert not re.match(r"[a-z]+://|//", link), link
            if link.startswith("#"):
                assert link[1:] in page.ids
            elif not link.startswith("data:"):
                assert (path.parent / unquote(link)).is_file(), link
        assert not re.search(r"https?://|@import|url\(", text)
    assert "&lt;script&gt;" in index.read_text("utf-8")


def test_a_site_is_rebuilt_in_place_and_takes_no_one_elses_folder(root: Path, tmp_path: Path) -> None:
    """Building twice gives the same bytes; a folder of other files is refused."""
    out = tmp_path / "out"
    first = {
        path: path.read_bytes() for path in build_site(Index(root), out).parent.rglob("*") if path.is_file()
    }
    (out / "runs" / "stale.html").write_text("old", "utf-8")
    second = {
        path: path.read_bytes() for path in build_site(Index(root), out).parent.rglob("*") if path.is_file()
    }
    assert first == second
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(UsageError, match="other files"):
        build_site(Index(root), other)
    assert (other / "thesis.txt").exists()


def test_an_empty_index_makes_a_page_too(tmp_path: Path) -> None:
    """It says how to begin."""
    index = build_site(Index(tmp_path / "none"), tmp_path / "out")
    assert "No release yet" in index.read_text("utf-8")


def test_trend_lines_hold_their_numbers() -> None:
    """Every dot lies within the picture, for one run and for a hundred; the words hold value and n."""
    frames = [observations(samples=20, seed=seed, cost=0.001) for seed in range(5)]
    runs = [measure_all(frame.assign(entropy_low=0.5, entropy_high=0.6)) for frame in frames]
    for count in (1, 2, 100):
        for name in ("recall", "window", "latency_p95", "entropy_low", "cost_per_1000"):
            told = [run[name] for run in runs]
            points = tuple(Point(f"r{i}", f"id{i}", told[i % len(told)]) for i in range(count))
            trend = Trend("prod", name, told[0].title, told[0].unit, told[0].direction, points)
            svg = trend_svg(trend)
            ys = [float(y) for y in re.findall(r'cy="([\d.-]+)"', svg)]
            xs = [float(x) for x in re.findall(r'cx="([\d.-]+)"', svg)]
            assert len(ys) == count
            assert all(0 <= y <= 210 for y in ys)
            assert all(0 <= x <= 380 for x in xs)
            assert "nan" not in svg
            assert f"n = {points[-1].told.n:,}" in trend.sentence()


def test_colours_are_readable() -> None:
    """Contrast of 4.5 to 1 at least (WCAG 2.2, AA), text on its ground."""
    css = (Path(__file__).parents[3] / "bunny_probe/releases/templates/site.css").read_text("utf-8")
    named = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", css))
    pairs = [(named[a], named[b]) for a in ("ink", "quiet", "accent") for b in ("paper", "wash")]
    pairs += [(named["paper"], named["accent"])]
    pairs += [
        (ink, ground) for ground, ink in re.findall(r"background: (#[0-9a-f]{6}); color: (#[0-9a-f]{6})", css)
    ]
    assert len(pairs) >= 11
    for ink, ground in pairs:
        light, dark = sorted((_luminance(ink), _luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
