"""The sections of the engine's report on costs: bytes, time, block sizes, and where attention falls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bunny_probe import plots
from bunny_probe.reports.display import finding, plot, table
from bunny_probe.reports.engine_policies import Bench

__all__ = ["block_sizes", "costs", "locality", "long_contexts", "refused"]

_MIB = 2**20


def refused(bench: Bench) -> None:
    """Why a section has nothing to show."""
    why = bench.why_not or "the bench was not asked for"
    finding(f"This section needs the bundled engine: {why}.", 'Set endpoint = "engine".', tone="refused")


def costs(bench: Bench) -> None:
    """Bytes and time of each policy and stored form, by length."""
    import pandas as pd

    if bench.costs is None:
        refused(bench)
        return
    rows = bench.costs["forms"]
    longest = max(row["length"] for row in rows)
    plot(lambda width: plots.policy_costs([row for row in rows if row["length"] == longest], width=width))
    table(
        pd.DataFrame([_cost_row(row) for row in rows]), "Every policy at every length", text_columns=["policy"]
    )
    for note in bench.costs["notes"]:
        finding(note, tone="bad" if "loses" in note or "No memory is saved" in note else "plain")


def long_contexts(bench: Bench) -> None:
    """The same on a random model of the same shape, at a length that the model itself was not trained for."""
    import pandas as pd

    if bench.costs is None:
        refused(bench)
        return
    long = bench.costs["long"]
    table(
        pd.DataFrame([_cost_row(row) for row in long["rows"]]),
        f"A random model of the same shape, {long['layers']} layers, {long['dtype']}",
        text_columns=["policy"],
    )
    kept = [row for row in long["rows"] if row["policy"] == "bsr" and row["form"] == "kv"]
    full = long["rows"][0]
    halved = [
        f"{row['name']} {_in_16_bits(row, long['dtype']) / _in_16_bits(full, long['dtype']):.3f}"
        for row in kept
    ]
    finding(
        f"At {full['length']:,} tokens the dense blocks hardly count: "
        + "; ".join(f"{row['name']} holds {row['bytes_of_full']:.3f} of full" for row in kept)
        + f". With dense keys and values in 16 bits it is {'; '.join(halved)}."
    )


def block_sizes(bench: Bench) -> None:
    """What the size of a block does to bytes and time."""
    if bench.costs is None:
        refused(bench)
        return
    rows = bench.costs["blocks"]
    plot(lambda width: plots.block_size_costs(rows, width=width))
    sized = [row for row in rows if row["block"]]
    fewest = min(sized, key=lambda row: float(row["bytes_of_full"]))
    fastest = min(sized, key=lambda row: float(row["token_of_full"]))
    finding(
        f"Fewest bytes with {fewest['block']} tokens a block ({fewest['bytes_of_full']:.2f} of full), fastest "
        f"with {fastest['block']} ({fastest['token_of_full']:.2f} times full's time).",
        "Take the largest block whose bytes you can afford: three are never sealed, whatever their size.",
    )


def locality(bench: Bench) -> None:
    """Where attention falls, and what reading only some blocks would cover."""
    import pandas as pd

    if bench.costs is None:
        refused(bench)
        return
    found = bench.costs["locality"]
    plot(lambda width: plots.attention_by_layer(found, width=width))
    rows = [
        {
            "layer": row["layer"],
            "first four tokens": f"{row['first_4_tokens']:.3f}",
            "newest three blocks": f"{row['newest_3_blocks']:.3f}",
            "blocks between": f"{row['blocks_between']:.3f}",
            "steps that needed one": f"{row['steps_needing_one']:.2f}",
            "heads that needed one": f"{row['heads_needing_one']:.2f}",
        }
        for row in [*found["layers"], {"layer": "mean", **found["mean"]}]
    ]
    table(pd.DataFrame(rows), "Share of attention by layer", folded=True)
    top = [
        {
            "blocks read": f"{row['most']} of {found['blocks_between']}",
            "attention covered": f"{row['covered']:.3f}",
            "best choice would cover": f"{row['best_possible']:.3f}",
        }
        for row in found["top"]
    ]
    if top:
        table(pd.DataFrame(top), "top-blocks: attention really covered, by how many sealed blocks are read")
    finding(
        f"A step counts as needing a block when some head puts more than {found['needed_from']:.0%} of its "
        f"attention between the first block and the newest three: {found['mean']['steps_needing_one']:.0%} of "
        f"{found['steps'] * len(found['layers']):,} (step, layer) pairs did.",
        "Do not expect sealed blocks to lie idle: choose bits and block size for memory, not for speed."
        if found["mean"]["steps_needing_one"] > 0.5
        else "",
    )


def _in_16_bits(row: Mapping[str, Any], dtype: str) -> float:
    """Bytes, were the dense keys and values in 16 bits: what is stored stays what it is."""
    dense = float(row["bytes"]) - float(row["stored_bytes"])
    return float(row["stored_bytes"]) + dense / (2 if dtype == "float32" else 1)


def _cost_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tokens": row["length"],
        "policy": row["name"],
        "MiB": f"{row['bytes'] / _MIB:,.1f}",
        "bytes of full": f"{row['bytes_of_full']:.3f}",
        "ms a token": f"{row['token_ms']:.1f}",
        "of full": f"{row['token_of_full']:.2f}",
        "ms a prompt token": f"{row['prompt_ms']:.2f}",
        "of full ": f"{row['prompt_of_full']:.2f}",
    }
