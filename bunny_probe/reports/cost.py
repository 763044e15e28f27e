"""The sections of the cost worksheet: each takes a case and shows question, picture, numbers, meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bunny_probe import cost
from bunny_probe.cost.money import money, money_range, signed
from bunny_probe.cost.pareto import pareto
from bunny_probe.cost.simulate import uncertain
from bunny_probe.reports.cost_case import Case, open_case
from bunny_probe.reports.cost_machine import machine
from bunny_probe.reports.cost_measured import measured, waiting
from bunny_probe.reports.display import Tile, finding, markdown, plot, table, tiles

if TYPE_CHECKING:
    from bunny_probe.cost import Option
    from bunny_probe.cost.curves import Axis

__all__ = [
    "Case",
    "against",
    "choice",
    "headline",
    "machine",
    "measured",
    "method",
    "open_case",
    "published",
    "results",
    "sensitivity",
    "summands",
    "waiting",
    "waterfall",
]

_WORDS = ["part", "summand", "with the numbers", "source", "note", "option", "input", "kind"]


# ── sections ────────────────────────────────────────────────────────────────────────────────────────


def headline(case: Case) -> None:
    """What is asked, and the numbers to remember."""
    sheet = case.sheet
    release = f", release {case.release}" if case.release else ""
    markdown(f"# {sheet.title}{release}")
    markdown(sheet.about)
    shown = []
    for option in sheet.options:
        total = cost.yearly(sheet, option, case.point, level=case.level).total
        whole = f"a year ({total.stated:,.0f} {sheet.currency}); {_interval(case, total)}"
        shown.append(Tile(option.label, money(total.stated, sheet.currency), whole))
    for first, second in case.pairs():
        gap = case.difference(first, second)
        shown.append(
            Tile(
                f"{first.key} minus {second.key}",
                signed(gap.total.stated, sheet.currency),
                f"a year ({gap.total.stated:,.0f} {sheet.currency}); {_interval(case, gap.total)}",
            )
        )
    tiles(shown)
    n = len(uncertain(sheet))
    if n == 0:
        finding(
            "No input was given an uncertainty: everything below is arithmetic, not an estimate.",
            "Give the inputs that you are least sure of a range.",
            tone="unsure",
        )


def summands(case: Case) -> None:
    """Every summand of every option with its numbers filled in."""
    for option in case.sheet.options:
        told = cost.explain(case.sheet, option)
        rows = told.table()
        used = rows.columns[[bool((rows[name] != "").any()) for name in rows.columns]]
        table(rows[used], option.label, text_columns=_WORDS)
        if steps := told.steps():
            markdown("\n".join(f"- {step}" for step in steps))
        finding(told.sentence())


def published(case: Case) -> None:
    """Figures that were published about this sum, against the sum."""
    checks = cost.check_published(case.sheet)
    if not checks:
        finding("The worksheet names no published figure to check.")
    for check in checks:
        finding(
            check.sentence(),
            ""
            if check.verdict == "holds"
            else "Do not quote that figure; quote the parts, which can be checked.",
            tone="plain" if check.verdict == "holds" else "bad",
        )


def waterfall(case: Case) -> None:
    """Where the difference between the options, or the one option's cost, comes from."""
    from bunny_probe.plots import cost as pictures

    if not case.pairs():
        alone = cost.yearly(case.sheet, case.sheet.options[0], case.point, level=case.level)
        plot(lambda width: pictures.waterfall(alone, width=width))
        finding(alone.sentence())
        table(alone.table(), "The parts", text_columns=["part"])
    for first, second in case.pairs():
        gap = case.difference(first, second)
        plot(lambda width, gap=gap: pictures.waterfall(gap, width=width))  # type: ignore[misc]
        undecided = not gap.total.certain and gap.total.low < 0 < gap.total.high
        finding(
            gap.sentence(),
            "The interval holds zero: the inputs do not settle which is dearer. Narrow the inputs named below."
            if undecided
            else "The sign is settled by the inputs as stated; what is left open is how much.",
            tone="unsure" if undecided else "plain",
        )
        table(gap.table(), f"{first.key} minus {second.key}, part by part", text_columns=["part"])
    for option in case.sheet.options:
        finding(cost.yearly(case.sheet, option, case.point, level=case.level).sentence())


def sensitivity(case: Case) -> None:
    """Which input to find out more about."""
    from bunny_probe.plots import cost as pictures

    pairs: list[tuple[Option, Option | None]] = [*case.pairs()] or [(case.sheet.options[0], None)]
    for first, second in pairs:
        bars = cost.tornado(case.sheet, first, second, level=case.level, seed=case.seed)
        if not bars.bars:
            finding(bars.sentence(), "Give the inputs ranges to see which of them matters.", tone="refused")
            continue
        plot(lambda width, bars=bars: pictures.tornado(bars, width=width))  # type: ignore[misc]
        half = _first_half(bars.bars)
        finding(
            bars.sentence(),
            f"Find out first: {' and '.join(half)}; {'it' if len(half) == 1 else 'together they'} "
            f"carr{'ies' if len(half) == 1 else 'y'} over half of the variance.",
        )
        table(bars.table(), "Every uncertain input, the widest swing first.", text_columns=["input"], rows=12)


def _first_half(bars: tuple[Any, ...]) -> list[str]:
    """The labels of the inputs that carry half of the variance, the largest first."""
    taken: list[str] = []
    carried = 0.0
    for bar in sorted(bars, key=lambda item: -item.with_others):
        taken.append(bar.label)
        carried += bar.with_others
        if carried > 0.5:
            break
    return taken


def against(case: Case) -> None:
    """Cost against load and against length, and where the options break even."""
    from bunny_probe.plots import cost_curves

    sheet = case.sheet
    axes: list[Axis] = []
    if sheet.load is not None:
        axes.append("load")
    if sheet.length is not None:
        axes.append("length")
    if not axes:
        finding("The worksheet gives no [range] of load or length, so no curve is drawn.", tone="refused")
    for axis in axes:
        at = cost.grid(sheet, axis)
        curve = cost.cost_against(sheet, sheet.options, axis, at, case.point, level=case.level)
        evens = [
            cost.break_even(sheet, first, second, axis, at, case.point, level=case.level)
            for first, second in case.pairs()
        ]
        even = evens[0] if len(evens) == 1 else None
        plot(lambda width, c=curve, e=even: cost_curves.cost_curve(c, e, width=width))  # type: ignore[misc]
        still = [f"{', '.join(line.constant)} of {line.option}" for line in curve.lines if line.constant]
        held = f" Held constant, as the worksheet ties them to no {axis}: {'; '.join(still)}." if still else ""
        told = " ".join(item.sentence() for item in evens)
        finding(f"{curve.sentence()} {told}{held}".strip(), _even_advice(evens, axis))
        if far := curve.unmeasured():
            finding(far, "Probe those lengths before you rely on this part of the curve.", tone="unsure")
        table(curve.table(), f"Cost against {axis}, {case.level:.0%} intervals in brackets")


def _even_advice(evens: list[Any], axis: str) -> str:
    crossing = [item for item in evens if item.crossing > 0]
    if not evens:
        return ""
    if not crossing:
        return f"No {axis} within the range changes the choice."
    return f"Find out on which side of the break-even your {axis} will be; near it, choose by other reasons."


def choice(case: Case) -> None:
    """The cheapest and the flattest option, and cost against quality."""
    from bunny_probe.plots import cost as pictures
    from bunny_probe.plots import cost_curves

    standing = cost.choose(case.sheet, case.point, level=case.level)
    plot(lambda width: pictures.options(standing, width=width))
    finding(
        standing.sentence(),
        "Take the flattest if a bad year hurts more than a good one helps; else the cheapest."
        if standing.cheapest is not standing.flattest
        else "Cheapest and flattest agree: there is no price to pay for steadiness.",
    )
    table(standing.table(), "The options side by side, the same draws for each", text_columns=["option"])
    if any(term.part == "quality" for option in case.sheet.options for term in option.terms):
        frontier = pareto(case.sheet, case.point, level=case.level)
        plot(lambda width: cost_curves.cost_quality(frontier, width=width))
        finding(frontier.sentence())
        table(frontier.table(), "Cost against quality", text_columns=["option"])


def method(case: Case) -> None:
    """How the numbers were made."""
    n = case.point.u[next(iter(case.point.u))].size if case.point.u else 0
    units = case.sheet.units
    weeks = f"{units.weeks_per_year:g}" if units.weeks_per_year else f"{units.days_per_year / 7:.4g}"
    markdown(
        f"- A year has {units.days_per_year:g} days and {weeks} weeks. 万 is 10,000; figures write ×10⁴ where "
        "no installed font has the character.\n"
        f"- {n:,} scrambled Sobol draws in 8 independent blocks, seed {case.seed}; what options share is drawn "
        "once. Inputs are drawn independently of each other.\n"
        "- A value with a range is triangular around the value; a range alone is uniform; a measured share is "
        "Jeffreys' posterior on the trials worth counting after the design effect of shared documents.\n"
        "- The tornado moves one input at a time; variance shares are Sobol indices (Saltelli 2010, Jansen "
        "1999).\n"
        "- The flattest option has the narrowest interval when inputs, load and length all vary."
    )


def results(case: Case) -> dict[str, Any]:
    """Every result as JSON values, for a summary file."""
    sheet = case.sheet
    return {
        "worksheet": sheet.title,
        "release": case.release,
        "options": {
            o.key: cost.yearly(sheet, o, case.point, level=case.level).to_json() for o in sheet.options
        },
        "differences": [case.difference(*pair).to_json() for pair in case.pairs()],
        "choice": cost.choose(sheet, case.point, level=case.level).to_json(),
        "published": [check.to_json() for check in cost.check_published(sheet)],
        "measured": None if case.found is None else case.found.sentence(),
    }


def _interval(case: Case, spread: Any) -> str:
    if spread.certain:
        return "no uncertainty given"
    return f"{case.level:.0%} interval {money_range(spread.low, spread.high, case.sheet.currency)}"
