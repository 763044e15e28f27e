"""What the cost worksheet takes from a run: error rates and latencies, and what they are stand-ins for."""

from __future__ import annotations

import numpy as np

from bunny_probe.cost.simulate import lost_share
from bunny_probe.reports.cost_case import Case
from bunny_probe.reports.display import finding, plot, table

__all__ = ["measured", "waiting"]


def measured(case: Case) -> None:
    """Which inputs come from a run, and which are stand-ins."""
    waiting_for = [
        (option.key, item.label, item.text)
        for option in case.sheet.options
        for item in option.inputs().values()
        if item.measured and not item.strata and not item.source.startswith("measured")
    ] + [
        (option.key, "latency sample", "as stated")
        for option in case.sheet.options
        if option.awaits_latency and option.loss and not option.loss.source.startswith("measured")
    ]
    if case.found is not None and case.fed:
        finding(f"{case.found.sentence()} These are the inputs of {', '.join(case.fed)}.")
        rows = case.found.table()
        asked = {i.measured for key in case.fed for i in case.sheet.option(key).inputs().values()}
        rows = rows[rows["kind"].isin([*asked, "wrong", "no_answer"])]
        rows["length"] = rows["length"].map(lambda x: "natural" if x != x else f"{x:,.0f}")
        table(rows, "What the run counted, by prompt length", text_columns=["kind"])
        for reach in sorted(_reaches(case)):
            finding(
                f"{reach[0].upper()}{reach[1:]}.",
                "Probe the lengths that the traffic has, as [length_mix] states them.",
                tone="unsure",
            )
    elif case.found is not None:
        finding(
            f"{case.found.sentence()} No input of this worksheet asks for a measurement, so none was replaced.",
            'Write { measured = "wrong", otherwise = … } where an error rate should come from the run.',
            tone="unsure",
        )
    if waiting_for:
        labels = "; ".join(f"{key}: {text} for {label}" for key, label, text in waiting_for)
        finding(
            f"Not measured, stand-ins are used: {labels}.",
            "Name an endpoint or a run to replace them; until then these parts are assumptions.",
            tone="unsure",
        )
    elif case.found is None:
        finding("Every input is stated by the worksheet; none is measured here.")


def _reaches(case: Case) -> set[str]:
    """What must be known about the lengths behind the measured inputs."""
    chosen = [case.sheet.option(key) for key in case.fed]
    items = [
        item for option in chosen for item in option.inputs().values() if item.source.startswith("measured")
    ]
    losses = [o.loss.source for o in chosen if o.loss is not None and o.loss.source.startswith("measured")]
    notes = [(item.label, item.note) for item in items] + [("latencies", s.partition("; ")[2]) for s in losses]
    return {f"{label}: {note}" for label, note in notes if note}


_LEAVING = {
    "threshold": "Nobody leaves before {patience:.3g} s; then {most:.0%} do.",
    "ramp": "Customers wait {grace:.3g} s without loss; by {patience:.3g} s {most:.0%} of them are gone.",
    "exponential": "Past {grace:.3g} s customers leave, after {patience:.3g} s on average, {most:.0%} at most.",
}


def waiting(case: Case) -> None:
    """Orders lost to waiting, from the distribution and not from the mean."""
    from bunny_probe.plots import cost_curves

    seen: set[object] = set()
    for option in case.sheet.options:
        term = next((item for item in option.terms if "lost_share" in item.formula), None)
        if term is None or option.loss is None:
            continue
        loss = option.loss
        grace, patience, most = (term.inputs[name].central for name in ("grace", "patience", "most"))
        same = (grace, patience, most, loss.shape, loss.weights, *(s.seconds.tobytes() for s in loss.strata))
        if same in seen:  # the options share one sample: one picture tells it
            continue
        seen.add(same)
        name = option.label if len(case.fed) == 1 else ""
        plot(
            lambda width, loss=loss, g=grace, p=patience, m=most, name=name: cost_curves.latency_loss(  # type: ignore[misc]
                loss, g, p, m, label=name, width=width
            )
        )
        share = float(lost_share(case.sheet, option, term))
        drawn = np.atleast_1d(lost_share(case.sheet, option, term, case.point))
        tail = (1 - case.level) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail])
        p50, p95, p99 = loss.quantiles((0.5, 0.95, 0.99))
        alone = float(loss.of(loss.mean_seconds(), grace, patience, most))
        leaving = _LEAVING[loss.shape].format(grace=grace, patience=patience, most=most)
        finding(
            f"P50 {p50:.3g} s, P95 {p95:.3g} s, P99 {p99:.3g} s. {leaving} Over the distribution {share:.2%} "
            f"of waiting orders are lost ({case.level:.0%} interval {low:.2%} to {high:.2%}); the mean latency "
            f"of {loss.mean_seconds():.3g} s alone would say {alone:.2%}.",
            "The tail loses orders that the mean does not show: work on P99 before the mean."
            if share > 1.1 * alone
            else "",
        )
    if not seen:
        finding("Lost orders are stated as money in this worksheet, not derived from a latency distribution.")
