"""What memory policies cost, and where a model's attention goes, from what `bunny-engine bench` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.plots._look import COLOURS, finish, legend_below, new_axes, refusal, style, token_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["attention_by_layer", "block_size_costs", "policy_costs"]

Row = Mapping[str, Any]


def policy_costs(rows: Sequence[Row], ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Bytes and time of a token against the control, a pair of dots a policy; both axes are ratios."""
    with style():
        shown = [row for row in rows if row["policy"] != "full"]
        ax = new_axes(ax, width, 1.9 + 0.42 * max(len(shown), 2))
        if not shown:
            return refusal(ax, "Costs of memory policies", "the bench holds no policy beside full")
        for i, row in enumerate(shown):
            memory, time = float(row["bytes_of_full"]), float(row["token_of_full"])
            ax.plot([memory, time], [i, i], color=COLOURS["line"], lw=2, zorder=1)
            ax.plot([memory], [i], "o", color=COLOURS["main"], ms=8, label="bytes held")
            ax.plot([time], [i], "D", color=COLOURS["second"], ms=7, label="time of a token")
        ax.axvline(1, color="#9a9a9a", lw=1.2)
        ratios = [float(row[name]) for row in shown for name in ("bytes_of_full", "token_of_full")]
        _ratio_axis(ax, ratios, most=6 if width > 5 else 4)
        ax.set_yticks(range(len(shown)), [str(row["name"]) for row in shown])
        ax.set_ylim(len(shown) - 0.4, -0.6)
        ax.set_xlabel("times what full takes")
        legend_below(ax, 2 if width > 5 else 1)
        dots = "; ".join(
            f"{row['name']}: bytes {row['bytes_of_full']:.2f}, time {row['token_of_full']:.2f}" for row in shown
        )
        saves = [row for row in shown if row["policy"] != "window" and row["bytes_of_full"] < 1]
        slower = [row for row in saves if row["token_of_full"] > 1]
        title = "What is saved in bytes is paid in time" if slower else "Policies against full"
        length = token_text(float(shown[0]["length"]))
        note = f"at {length} tokens; full = 1; medians of single tokens, so small differences mean nothing"
        return finish(ax, title, note, f"Bytes and time of memory policies against full at {length}. {dots}.")


def block_size_costs(rows: Sequence[Row], ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Bytes and time of a token against block size, both against the control."""
    with style():
        ax = new_axes(ax, width, 3.9 if width > 5 else 3.6)
        shown = sorted((row for row in rows if row["block"]), key=lambda row: int(row["block"]))
        if len(shown) < 2:
            return refusal(ax, "Block size", "the bench holds fewer than two block sizes")
        x = np.log2([float(row["block"]) for row in shown])
        for name, label, colour, mark, above in (
            ("bytes_of_full", "bytes held", "main", "o", -16),
            ("token_of_full", "time of a token", "second", "D", 8),
        ):
            y = [float(row[name]) for row in shown]
            ax.plot(x, y, marker=mark, color=COLOURS[colour], label=label, ms=7)
            for place, value in zip(x, y, strict=True):
                ax.annotate(
                    f"{value:.2f}", (place, value), (0, above), textcoords="offset points", ha="center",
                    fontsize=8.6, color=COLOURS["ink"],
                )  # fmt: skip
        ax.axhline(1, color="#9a9a9a", lw=1.2)
        ax.set_xticks(x, [token_text(float(row["block"])) for row in shown])
        ax.set_xlim(x[0] - 0.35, x[-1] + 0.35)
        highest = max(float(row[name]) for row in shown for name in ("bytes_of_full", "token_of_full"))
        ax.set_ylim(-0.12 * highest, 1.18 * highest)
        ax.set_xlabel("tokens a block")
        ax.set_ylabel("times what full takes")
        legend_below(ax, 2)
        small, large = shown[0], shown[-1]
        title = (
            "Small blocks save bytes and cost time"
            if small["bytes_of_full"] < large["bytes_of_full"]
            and small["token_of_full"] > large["token_of_full"]
            else "Bytes and time by block size"
        )
        dots = "; ".join(
            f"{row['block']} tokens: bytes {row['bytes_of_full']:.2f}, time {row['token_of_full']:.2f}"
            for row in shown
        )
        length = token_text(float(shown[0]["length"]))
        note = f"bsr, {shown[0]['bits']} bits, two newest blocks and the first dense, at {length} tokens"
        return finish(ax, title, note, f"Bytes and time of bsr against full by block size. {dots}.")


def attention_by_layer(found: Mapping[str, Any], ax: Axes | None = None, *, width: float = 7.2) -> Axes:
    """Where each layer's attention lies: first four tokens, rest of the first block, between, newest blocks."""
    with style():
        ax = new_axes(ax, width, 4.0 if width > 5 else 3.8)
        layers = found["layers"]
        x = np.arange(len(layers))
        sink, near, far = (
            np.array([float(row[name]) for row in layers])
            for name in ("first_4_tokens", "newest_3_blocks", "blocks_between")
        )
        rest = np.clip(1 - sink - near - far, 0, 1)
        below = np.zeros(len(layers))
        for part, label, colour in (
            (sink, "first four tokens", "fifth"),
            (rest, "rest of the first block", "sixth"),
            (far, "blocks between", "second"),
            (near, "newest three blocks", "main"),
        ):
            ax.bar(x, part, 0.86, bottom=below, color=COLOURS[colour], label=label)
            below += part
        ax.set_xlim(-0.6, len(layers) - 0.4)
        ax.set_ylim(0, 1)
        ax.set_xlabel("layer")
        ax.set_ylabel("share of attention")
        ax.grid(visible=False)
        legend_below(ax, 4 if width > 5 else 1)
        mean = found["mean"]
        title = f"{mean['blocks_between']:.0%} of attention falls on blocks between, unevenly by layer"
        note = (
            f"{found['length']:,} tokens of prose, blocks of {found['block']}, mean over heads and the last "
            f"{found['steps']} tokens"
        )
        most = max(layers, key=lambda row: float(row["blocks_between"]))
        alt = (
            f"Stacked bars of attention by layer. Means over layers: first four tokens "
            f"{mean['first_4_tokens']:.2f}, newest three blocks {mean['newest_3_blocks']:.2f}, between "
            f"{mean['blocks_between']:.2f}; most between in layer {most['layer']}: "
            f"{most['blocks_between']:.2f}."
        )
        return finish(ax, title, note, alt)


def _ratio_axis(ax: Axes, values: Sequence[float], most: int) -> None:
    """A log2 axis with about `most` ticks that read as factors; 1 is one of them."""
    low, high = min(*values, 0.5), max(*values, 2.0)
    ax.set_xscale("log", base=2)
    ax.set_xlim(low / 1.35, high * 1.35)
    first, last = int(np.ceil(np.log2(low / 1.3))), int(np.floor(np.log2(high * 1.3)))
    step = max(1, -(-(last - first) // most))
    ticks = [2.0**power for power in range(first, last + 1) if power % step == 0]
    ax.set_xticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(axis="y", visible=False)
