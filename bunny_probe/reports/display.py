"""What a notebook cell shows: pictures with alt text, tables that scroll, findings, tiles.

The same output has to read well in JupyterLab, in a report without scripts, and to a screen reader.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Tile", "figure", "finding", "markdown", "plot", "table", "tiles"]

_PIXELS_PER_INCH = 100  # on the page; drawn at twice that, for sharp screens
_WIDE, _NARROW = 8.6, 3.7  # inches: the report's column on a screen and on a phone


@dataclass(frozen=True, slots=True)
class Tile:
    """One headline number: what it is, its value, and what it must not be read without (interval, n)."""

    name: str
    value: str
    qualifier: str


def plot(draw: Callable[[float], Axes]) -> None:
    """Show a picture that is drawn for the page it stands on: once for a screen, once for a phone.

    `draw` maps a width in inches to Axes that carry their alt text (see `bunny_probe.plots`).
    """
    from bunny_probe.plots import alt_text

    axes, narrow = draw(_WIDE), draw(_NARROW)
    alt = escape(alt_text(axes), quote=True)
    wide_png, narrow_png = _png(_figure_of(axes)), _png(_figure_of(narrow))
    _html(
        f'<picture><source media="(max-width: 640px)" srcset="{_data_url(narrow_png)}">'
        f'<img src="{_data_url(wide_png)}" alt="{alt}" width="{_pixels(wide_png)}"></picture>'
    )


def figure(drawn: Figure, alt: str) -> None:
    """Show a matplotlib figure as PNG with its description, and close it."""
    from IPython.display import display

    png = _png(drawn)
    width = _pixels(png)
    display(  # type: ignore[no-untyped-call]
        {"image/png": png, "text/plain": alt},
        metadata={"image/png": {"alt": alt, "width": width}},
        raw=True,
    )


def table(
    frame: pd.DataFrame,
    caption: str,
    *,
    text_columns: Iterable[str] = (),
    digits: int = 3,
    rows: int = 60,
    folded: bool = False,
) -> None:
    """Show a table with a caption; longer than `rows` is cut, and says so. `folded`: opened on demand."""
    wordy = set(text_columns)
    shown = frame.head(rows)
    head = "".join(f'<th scope="col"{_wordy(name in wordy)}>{escape(str(name))}</th>' for name in shown.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_wordy(name in wordy)}>{escape(_cell(value, digits))}</td>"
            for name, value in zip(shown.columns, record, strict=True)
        )
        + "</tr>"
        for record in shown.itertuples(index=False, name=None)
    )
    cut = f" First {rows} of {len(frame):,} rows." if len(frame) > rows else ""
    label = escape(caption + cut)
    shown_as = (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table>'
        f"<caption>{label}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    _html(f"<details><summary>{label}</summary>{shown_as}</details>" if folded else shown_as)


def finding(
    sentence: str, next_step: str = "", *, tone: Literal["plain", "unsure", "refused", "bad"] = "plain"
) -> None:
    """Show what a section found, and what to do next."""
    after = f'<p class="next"><strong>Next:</strong> {escape(next_step)}</p>' if next_step else ""
    _html(f'<div class="finding {tone}"><p>{escape(sentence)}</p>{after}</div>')


def tiles(items: Iterable[Tile]) -> None:
    """Show headline numbers side by side."""
    body = "".join(
        f'<li><div class="name">{escape(item.name)}</div><div class="value">{escape(item.value)}</div>'
        f'<div class="with">{escape(item.qualifier)}</div></li>'
        for item in items
    )
    _html(f'<ul class="tiles">{body}</ul>')


def markdown(text: str) -> None:
    """Show Markdown; for headings that hold a value."""
    from IPython.display import Markdown, display

    display(Markdown(text))  # type: ignore[no-untyped-call]


def _figure_of(axes: Axes) -> Figure:
    from matplotlib.figure import Figure

    drawn = axes.get_figure(root=True)
    assert isinstance(drawn, Figure)
    return drawn


def _png(drawn: Figure) -> bytes:
    """The figure as PNG at twice the page's resolution; closes it."""
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=2 * _PIXELS_PER_INCH, bbox_inches="tight")
    plt.close(drawn)
    return buffer.getvalue()


def _pixels(png: bytes) -> int:
    """The width to show it at, from the PNG's header."""
    return int.from_bytes(png[16:20], "big") // 2


def _data_url(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _html(text: str) -> None:
    from IPython.display import HTML, display

    display(HTML(text))  # type: ignore[no-untyped-call]


def _wordy(wordy: bool) -> str:
    return ' class="text"' if wordy else ""


def _cell(value: Any, digits: int) -> str:
    import pandas as pd

    if pd.isna(value):  # None, NaN and <NA> alike: nothing is known
        return "—"
    if isinstance(value, float):
        return f"{value:,.{digits}g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
