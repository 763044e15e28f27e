"""What the figures of a bench say in words, and above all where a policy loses."""

from __future__ import annotations

from typing import Any

__all__ = ["notes"]

_DENSE = 3  # blocks that are never sealed: the first one and the two newest


def notes(found: dict[str, Any]) -> list[str]:
    """Sentences on what `bench.measure` found; see there for its shape."""
    form, why = found["stored_form"]
    said = [f"auto stores {form}: {why}.", *_busy(found), *_slower(found), *_bigger(found)]
    if found["device"] == "cpu":
        said.append(
            "On a CPU host and device memory are the same: placement changes nothing and was not timed."
        )
    return [*said, *_attention(found["locality"])]


def _busy(found: dict[str, Any]) -> list[str]:
    load, threads = found.get("load"), found["threads"]
    if load is None or load < 0.5 * threads:
        return []
    return [
        f"The machine was busy before the bench began (load {load:.1f}, {threads} threads used): times are "
        "longer than on a quiet one, and their ratios less sure. Bytes are not touched by that."
    ]


def _slower(found: dict[str, Any]) -> list[str]:
    rows = [row for row in found["forms"] if row["policy"] in ("bsr", "top-blocks")]
    lost = [row for row in rows if row["token_of_full"] > 1]
    won = [row for row in rows if row not in lost and row["length"] > _DENSE * row["block"]]
    if not lost:
        return [f"No token took longer than with full, in any of {len(rows)} rows."]
    worst = max(lost, key=lambda row: float(row["token_of_full"]))
    return [
        f"Where BSR loses: in {len(lost)} of {len(rows)} rows a token takes longer than with full, at worst "
        f"{worst['token_of_full']:.1f} times ({worst['name']} at {worst['length']:,} tokens): to rebuild a "
        "sealed block costs more there than to read a dense one.",
        *(
            f"{row['name']} at {row['length']:,} tokens: {row['token_of_full']:.2f} of full's time a token."
            for row in won
        ),
    ]


def _bigger(found: dict[str, Any]) -> list[str]:
    rows = [row for row in found["forms"] if row["policy"] != "full"]
    dense = max((row["length"] for row in rows if row["length"] <= _DENSE * row["block"]), default=0)
    lost = [row for row in rows if row["bytes_of_full"] >= 1 and row["length"] > _DENSE * row["block"]]
    said = []
    if dense:
        said.append(
            f"At {dense:,} tokens every block is dense still: no policy saves anything, and layer inputs that "
            "are kept for later come on top."
        )
    if lost:
        names = "; ".join(f"{row['name']} at {row['length']:,}" for row in lost)
        said.append(f"No memory is saved, or some is lost, by: {names}.")
    return said


def _attention(seen: dict[str, Any]) -> list[str]:
    mean, share = seen["mean"], seen["needed_from"]
    if not seen["blocks_between"]:
        return [f"At {seen['length']:,} tokens no block lies between the first and the newest three."]
    said = (
        f"At {seen['length']:,} tokens {mean['blocks_between']:.0%} of the attention lies between the first "
        f"block and the newest three; in {mean['steps_needing_one']:.0%} of (step, layer) pairs some head puts "
        f"more than {share:.0%} of its attention there"
    )
    often = mean["steps_needing_one"] > 0.5
    return [
        f"{said}{': sealed blocks are not idle, so what is saved is memory and not work' if often else ''}."
    ]
