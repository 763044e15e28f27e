"""The sections of the engine's report: memory policies against recall, entropy, memory and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bunny_probe import fits, plots
from bunny_probe.fits.contrasts import Contrasts
from bunny_probe.fits.groups import Groups
from bunny_probe.fits.proportions import wilson
from bunny_probe.reports.diagnose import answers as _answers
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles
from bunny_probe.reports.engine_costs import block_sizes, costs, locality, long_contexts, refused
from bunny_probe.reports.engine_policies import Bench, open_bench
from bunny_probe.reports.engine_window import WINDOW, seen, window, window_fit
from bunny_probe.reports.position_recall import from_end
from bunny_probe.reports.wording import crossing_tile, listed, provenance, span

if TYPE_CHECKING:
    import pandas as pd

    from bunny_probe.fits.contrasts import ContrastsFit

__all__ = [
    "answers",
    "block_sizes",
    "costs",
    "entropy",
    "headline",
    "locality",
    "long_contexts",
    "method",
    "open_bench",
    "recall",
    "window",
]


def headline(bench: Bench) -> None:
    """What was asked of whom, and the numbers to remember."""
    release = f", release {bench.release}" if bench.release else ""
    name = bench.endpoint
    markdown(
        f"# Memory policies of {name}{release}" if not bench.why_not else f"# {name}, asked as it is{release}"
    )
    markdown(provenance(bench.frame()))
    if bench.why_not:
        finding(
            f"Recall by distance is all that is shown here: {bench.why_not}. The sections on memory policies, "
            "entropy under them, bytes, time, block sizes and locality need the bundled engine.",
            'Set endpoint = "engine".',
            tone="refused",
        )
        return
    shown: list[Tile] = []
    fit = _against_full(bench)
    for row in fit.rows if fit else ():
        if row.difference is not None:
            bound = f"95 % interval {span(row.low, row.high, '+.2f')}, n = {row.n} pairs"
            shown.append(Tile(f"{_where(bench)}: {row.name}", f"{row.difference:+.2f}", bound))
    if bench.truth is not None and WINDOW in bench.studies:
        found = window_fit(bench)
        shown.append(
            crossing_tile(
                f"Window estimated; truth {bench.truth.whole_to} to {bench.truth.gone_from}",
                found.window, found.counts.used, unit="tokens of text behind a fact", why=found.reason,
            )
        )  # fmt: skip
    if bench.costs is not None:
        cost = _longest(bench.costs, "bsr kv8")
        if cost is not None:
            at = f"at {cost['length']:,} tokens, {bench.costs['dtype']}, of full"
            shown.append(Tile("Bytes, bsr in 8 bits", f"{cost['bytes_of_full']:.2f}", at))
            shown.append(Tile("Time of a token, bsr in 8 bits", f"{cost['token_of_full']:.1f} ×", at))
    tiles(shown)


def recall(bench: Bench) -> None:
    """Recall by policy and by where the fact stands."""
    frame = bench.frame()
    fit = Groups(by=("policy",))(frame)
    if fit.status == "refused":
        finding(fit.sentence(), tone="refused")
        return
    if len(bench.studies) > 1:
        plot(lambda width: plots.group_dots(fit, width=width, title=_lowest(fit)))
    _by_distance(bench, frame)
    contrasts = _against_full(bench)
    if contrasts is None:
        row = fit.rows[0]
        finding(
            f"Recall over all distances: {row.score:.2f} [{row.low:.2f}, {row.high:.2f}], n = {row.n} of "
            f"{row.asked} asked."
            if len(fit.rows) == 1 and row.score is not None
            else fit.sentence()
        )
        return
    if contrasts.status == "refused":
        finding(contrasts.sentence(), tone="refused")
        return
    worse = [
        row.name.removesuffix(" minus full")
        for row in contrasts.rows
        if row.p_adjusted is not None and row.p_adjusted < 1 - contrasts.level and (row.difference or 0) < 0
    ]
    plot(
        lambda width: plots.contrast_dots(
            contrasts, width=width, title=_where(bench), label="recall, policy minus full"
        )
    )
    advice = (
        f"Shown to cost recall there: {listed(worse)}."
        if worse
        else "No policy is shown to cost recall there; the intervals say how much it could be."
    )
    finding(f"{_where(bench)}: {contrasts.sentence()}", advice, tone="bad" if worse else "plain")


def entropy(bench: Bench) -> None:
    """How unsure the model is under each policy, and how often it says the very same."""
    import pandas as pd

    if bench.why_not:
        refused(bench)
        return
    rows = []
    whole = bench.whole.frame.set_index("probe_id")["text"]
    for name, study in bench.studies.items():
        fit = fits.Entropy(by="depth")(from_end(study))
        pairs = (
            study.frame.set_index("probe_id")["text"].to_frame("mine").join(whole.rename("full"), how="inner")
        )
        pairs = pairs.dropna()
        same = int((pairs["mine"] == pairs["full"]).sum())
        low, high = wilson(float(same), float(len(pairs))) if len(pairs) else (None, None)
        first = name == next(iter(bench.studies))
        rows.append(
            {
                "policy": name,
                "entropy, nats": "—" if fit.status == "refused" or fit.low.value is None else fit.low.text(),
                "answers": fit.counts.used,
                "same text as full": "—" if first or low is None or high is None
                else f"{same} of {len(pairs)} [{float(low):.2f}, {float(high):.2f}]",
            }
        )  # fmt: skip
    table(
        pd.DataFrame(rows),
        "Mean token entropy (lower bound, from the tokens that were reported) and identical answers",
        text_columns=["policy", "entropy, nats", "same text as full"],
    )
    sealed = [row for row in rows if str(row["policy"]).startswith("bsr")]
    if not sealed:
        finding("No bsr policy was asked.", tone="refused")
        return
    said = "; ".join(f"{row['policy']}: {row['same text as full']}" for row in sealed)
    finding(
        f"Greedy answers that are letter for letter those of full. {said}.",
        "Where answers are identical a user sees no change; the interval says how often there could be one.",
    )


def answers(bench: Bench) -> None:
    """The answers themselves, under the policy that finds least."""
    found = {name: study.frame["score"].mean() for name, study in bench.studies.items()}
    least = min(found, key=lambda name: float(found[name]) if found[name] == found[name] else 1.0)
    if len(found) > 1:
        markdown(f"Under **{least}**, which finds least.")
    _answers(bench.studies[least])


def method(bench: Bench) -> None:
    """How the numbers were made."""
    study = bench.whole
    machine = ""
    if bench.costs is not None:
        found = bench.costs
        command = f"bunny-engine bench{' --quick' if found['quick'] else ''}"
        machine = (
            f"Bytes and times: `{command}` on {found['machine']}, {found['threads']} threads, {found['dtype']}"
            f", {found['when']}; times are medians, the policies taking turns, and carry no interval: "
            "read factors, not percents. "
        )
    count = sum(len(each.frame) for each in bench.studies.values())
    if bench.why_not:
        markdown(
            "One endpoint was asked for single facts at stated distances from the end of its prompts, "
            f"greedily. Recall has Wilson intervals on the effective number of answers.\n\nRun file: "
            f"`{study.run_path.name}`, {count:,} observations."
        )
        return
    markdown(
        "Each policy is a server of its own on the same weights, asked the same probes greedily; differences "
        "are paired by document, with p-values corrected over the policies (Holm). Recall has Wilson intervals "
        "on the effective number of answers. The window is fitted to facts at stated distances, as for any "
        "endpoint: the fit knows nothing of blocks. The truth is reckoned from block size, prompt length and "
        f"the places of the facts, as the server's own tokenizer counts them. {machine}\n\n"
        f"Run file: `{study.run_path.name}`, {count:,} observations."
    )


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────


def _against_full(bench: Bench) -> ContrastsFit | None:
    """Each policy minus the control, paired by probe; None where there is nothing to pair."""
    names = list(bench.studies)
    if len(names) < 2 or names[0] != "full":
        return None
    pairs = tuple((f"{name} minus full", "full", name) for name in names[1:])
    frame = bench.frame()
    if bench.truth is not None:  # elsewhere every policy sees the same, so a difference there is none of theirs
        behind = (1 - frame["depth"].astype("float64")) * bench.truth.length
        frame = frame[(behind > bench.truth.gone_from) & (behind < bench.truth.first_block)]
    return Contrasts(pairs, column="policy", match=("cluster", "variant", "task"))(frame)


def _where(bench: Bench) -> str:
    return "Facts in older blocks" if bench.truth is not None else "All facts"


def _lowest(fit: Any) -> str:
    rows = [row for row in fit.rows if row.score is not None]
    low = min(rows, key=lambda row: float(row.score or 0))
    return f"Lowest recall: {low.names[0]}, {low.score:.2f}"


def _by_distance(bench: Bench, frame: pd.DataFrame) -> None:
    import pandas as pd

    placed = frame[frame["task"] == "from_end"]
    if placed.empty:
        return
    distance = placed["variant"].str.extract(r"^(\d+)")[0].astype("Int64")
    rows = []
    for value in sorted(distance.dropna().unique()):
        row: dict[str, Any] = {"tokens behind the fact": int(value)}
        if bench.truth is not None:
            row["for window"] = seen(bench, int(value))
        for name in bench.studies:
            part = placed[(distance == value) & (placed["policy"] == name)]
            scored = part["score"].dropna()
            row[name] = f"{scored.sum():.0f}/{len(scored)}" + (
                f", {len(part) - len(scored)} unanswered" if len(part) > len(scored) else ""
            )
        rows.append(row)
    table(pd.DataFrame(rows), "Facts found of those answered, by distance from the end")


def _longest(costs: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    rows = [row for row in costs["forms"] if row["name"] == name]
    return max(rows, key=lambda row: int(row["length"])) if rows else None
