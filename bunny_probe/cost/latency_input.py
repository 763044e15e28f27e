"""The latency distribution of a worksheet: latencies seen, stated quantiles, a named shape, or a run's.

sample = { seen = [0.8, 1.1, 2.9], unit = "s" }
sample = { quantiles = { p50 = "2 s", p90 = "4 s", p99 = "11 s" } }
sample = { lognormal = { median = "2 s", factor = 1.8 } }
sample = { measured = "latency" | "ttft", otherwise = <any of the above> }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from bunny_probe.cost.distributions import Floats
from bunny_probe.cost.inputs import Key, read_input
from bunny_probe.cost.latency import LatencyLoss, LossShape, Stratum
from bunny_probe.cost.units import UnitFault, Units
from bunny_probe.errors import WorksheetError, unknown_choice

__all__ = ["read_loss"]

_LOSSES = ("threshold", "ramp", "exponential")
_MEASURES = ("latency", "ttft")
_KEY = Key("s", "latencies: { seen = [0.8, 1.1, …], unit = 's' } or { quantiles = { p50 = '2 s', … } }")
_POINTS = 2048  # equally likely latencies that stand for a stated distribution


def read_loss(
    sample: Any, shape: Any, where: str, *, units: Units, currency: str, file: str
) -> tuple[LatencyLoss | None, str]:
    """The loss over the stated latencies, and the run's measure that is to take their place ("" for none).

    (None, "") where no sample is given. Raises WorksheetError.
    """
    if sample is None:
        return None, ""
    shape = "ramp" if shape is None else shape
    if shape not in _LOSSES:
        raise WorksheetError(unknown_choice("loss", str(shape), _LOSSES), file=file, key=f"{where}.loss")
    awaits, source = "", ""
    if isinstance(sample, Mapping) and "measured" in sample:
        awaits, source = str(sample["measured"]), str(sample.get("source", ""))
        if awaits not in _MEASURES:
            told = unknown_choice("measure", awaits, _MEASURES)
            raise WorksheetError(told, file=file, key=f"{where}.sample.measured")
        _known(sample, ("measured", "otherwise", "source"), file, f"{where}.sample")
        sample = sample.get("otherwise")
        if sample is None:
            waiting = Stratum(float("nan"), np.array([np.nan]), np.inf)
            return LatencyLoss(cast(LossShape, shape), (waiting,), (1.0,)), awaits
    reading = _Reading(f"{where}.sample", units, currency, file)
    stratum = reading.stratum(sample)
    if isinstance(sample, Mapping):
        source = str(sample.get("source", source))
    return LatencyLoss(cast(LossShape, shape), (stratum,), (1.0,), source), awaits


class _Reading:
    def __init__(self, where: str, units: Units, currency: str, file: str) -> None:
        self.where, self.units, self.currency, self.file = where, units, currency, file

    def stratum(self, value: Any) -> Stratum:
        body = {k: v for k, v in value.items() if k != "source"} if isinstance(value, Mapping) else value
        if isinstance(body, Mapping) and "seen" in body:
            return self._seen(body)
        if isinstance(body, Mapping) and "quantiles" in body and "shape" not in body:
            _known(body, ("quantiles",), self.file, self.where)
            return Stratum(float("nan"), self._from_quantiles(body["quantiles"]), np.inf)
        item = self._input(body, self.where)
        return Stratum(float("nan"), np.sort(item.draw((np.arange(_POINTS) + 0.5) / _POINTS)), np.inf)

    def _seen(self, body: Mapping[str, Any]) -> Stratum:
        _known(body, ("seen", "unit"), self.file, self.where)
        try:
            unit = self.units.parse(str(body.get("unit", "s")))
        except UnitFault as fault:
            raise WorksheetError(str(fault), file=self.file, key=f"{self.where}.unit") from fault
        if unit.dims != {"s": 1}:
            raise WorksheetError(f"{unit.text!r} is no unit of time", file=self.file, key=f"{self.where}.unit")
        seen = body["seen"]
        numbers = isinstance(seen, list) and all(
            isinstance(item, int | float) and not isinstance(item, bool) and 0 <= item < 1e9 for item in seen
        )
        if not numbers or len(seen) < 2:
            raise WorksheetError(
                "at least two latencies, numbers of at least 0", file=self.file, key=self.where
            )
        return Stratum(float("nan"), np.sort(np.asarray(seen, dtype=float)) * unit.factor, float(len(seen)))

    def _from_quantiles(self, table: Any) -> Floats:
        """Log-latency interpolated in normal scores, which carries both ends on as lognormal tails."""
        from scipy.special import ndtri

        fault = "two or more of p1 to p99.9, rising, above 0, such as { p50 = '2 s', p95 = '6 s' }"
        if not isinstance(table, Mapping) or len(table) < 2:
            raise WorksheetError(fault, file=self.file, key=f"{self.where}.quantiles")
        points: list[tuple[float, float]] = []
        for name, item in table.items():
            digits = name.removeprefix("p")
            if not digits.replace(".", "", 1).isdecimal():
                raise WorksheetError(fault, file=self.file, key=f"{self.where}.quantiles.{name}")
            points.append((float(digits) / 100, self._input(item, f"{self.where}.quantiles.{name}").central))
        points.sort()
        p, x = np.array([q for q, _ in points]), np.array([v for _, v in points])
        if p[0] <= 0 or p[-1] >= 1 or x[0] <= 0 or (np.diff(x) <= 0).any() or (np.diff(p) <= 0).any():
            raise WorksheetError(fault, file=self.file, key=f"{self.where}.quantiles")
        z, y, at = ndtri(p), np.log(x), ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
        low, high = (y[1] - y[0]) / (z[1] - z[0]), (y[-1] - y[-2]) / (z[-1] - z[-2])
        below, above = y[0] + low * (at - z[0]), y[-1] + high * (at - z[-1])
        logs = np.where(at < z[0], below, np.where(at > z[-1], above, np.interp(at, z, y)))
        return np.asarray(np.exp(logs), dtype=float)

    def _input(self, value: Any, where: str) -> Any:
        return read_input(value, _KEY, where, units=self.units, currency=self.currency, file=self.file)


def _known(table: Mapping[str, Any], allowed: tuple[str, ...], file: str, where: str) -> None:
    for key in table:
        if key not in allowed:
            raise WorksheetError(unknown_choice("key", str(key), allowed), file=file, key=where)
