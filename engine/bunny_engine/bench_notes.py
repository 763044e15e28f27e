"""What the figures of a bench say in words, and above all where a policy loses."""

from __future__ import annotations

from typing import Any

__all__ = ["notes"]


def notes(found: dict[str, Any]) -> list[str]:
    """Sentences on what `bench.measure` found; see there for its shape."""
    form, why = found["stored_form"]
    said = [f"auto stores {form}: {why}.", *_slower(found), *_bigger(found)]
    if found["device"] == "cpu":
        said.append(
            "On a CPU host and device memory are the same: placement changes nothing and was not timed."
        )
    return [*said, *_attention(found["locality"])]


def _slower(found: dict[str, Any]) -> list[str]:
    rows = [row for row in found["forms"] if row["policy"] in ("bsr", "top-blocks")]
    lost = [row for row in rows if row["token_of_full"] > 1]
    if not lost:
        return [f"No token took longer than with full, in any of {len(rows)} rows."]
    worst = max(lost, key=lambda row: float(row["token_of_full"]))
    return [
        f"Where BSR loses: in {len(lost)} of {len(rows)} rows a token takes longer than with full, at worst "
        f"{worst['token_of_full']:.1f} times ({worst['name']} at {worst['length']:,} tokens). To rebuild a "
        "sealed block costs more here than to read a dense one."
    ]


def _bigger(found: dict[str, Any]) -> list[str]:
    rows = [row for row in found["forms"] if row["policy"] != "full" and row["bytes_of_full"] >= 1]
    if not rows:
        return []
    names = "; ".join(f"{row['name']} at {row['length']:,}" for row in rows)
    return [f"No memory is saved, or some is lost, by: {names}."]


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
    return [f"{said}{': sealed blocks are needed nearly always, so what is saved is memory' if often else ''}."]
