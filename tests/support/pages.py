"""Looks at a page as a reader would: in a headless Chromium, at the width of a phone and of a wide screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

WIDTHS = (380, 1600)  # CSS pixels

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # containers give it 64 MB
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# What sticks out of the window, unless a box around it scrolls.
_LOOK = """() => {
  const edge = document.documentElement.clientWidth + 1;
  const scrolls = e => { for (; e; e = e.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX)) return true; return false; };
  return {
    sideways: document.documentElement.scrollWidth > edge,
    over: [...document.body.querySelectorAll('*')]
      .filter(e => e.getBoundingClientRect().right > edge && !scrolls(e)).map(e => e.tagName.toLowerCase()),
    broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).length,
    unnamed: [...document.images].filter(i => !i.alt || i.alt === 'Figure without a description').length,
    images: document.images.length,
    faults: [...document.querySelectorAll('.fault')].map(e => e.innerText),
  };
}"""


def chromium() -> str | None:
    """Where a Chromium lies on this machine; None: nowhere."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=_FLAGS)
        try:
            yield running
        finally:
            running.close()


def images(window: Browser, path: Path) -> int:
    """How many pictures a page shows."""
    page = window.new_page()
    page.goto(path.resolve().as_uri())
    count = int(page.evaluate(_LOOK)["images"])
    page.close()
    return count


def faults(window: Browser, path: Path, width: int) -> list[str]:
    """What a reader would trip over: missing pictures, errors, words cut off, foreign requests, WCAG AA."""
    page = window.new_page(viewport={"width": width, "height": 900})
    told: list[str] = []
    page.on("console", lambda message: told.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: told.append(f"script error: {error}"))
    page.on("requestfailed", lambda request: told.append(f"not loaded: {request.url[:120]}"))
    page.on("request", lambda request: told.extend(_foreign(request.url)))
    page.goto(path.resolve().as_uri())
    told += _seen(page)
    told += _accessible(page)
    page.close()
    return [f"{path.parent.name}/{path.name} at {width} px: {text}" for text in told]


def _foreign(url: str) -> list[str]:
    return [] if url.startswith(("file:", "data:")) else [f"asks the network for {url[:120]}"]


def _seen(page: Page) -> list[str]:
    seen: dict[str, Any] = page.evaluate(_LOOK)
    return [
        *(["scrolls sideways"] if seen["sideways"] else []),
        *(f"<{tag}> sticks out" for tag in seen["over"][:5]),
        *([f"{seen['broken']} pictures are missing"] if seen["broken"] else []),
        *([f"{seen['unnamed']} pictures have no words"] if seen["unnamed"] else []),
        *(f"a cell failed: {text}" for text in seen["faults"]),
    ]


def _accessible(page: Page) -> list[str]:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).response
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:160]}" for rule in found["violations"]]
