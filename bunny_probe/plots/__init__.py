"""Figures: (frame or fit, axes) to matplotlib Axes, in one style, each with a text for screen readers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.plots._look import COLOURS as COLOURS
    from bunny_probe.plots._look import alt_text as alt_text
    from bunny_probe.plots.arena import pareto_front as pareto_front
    from bunny_probe.plots.arena import preference_dots as preference_dots
    from bunny_probe.plots.arena import ranking_dots as ranking_dots
    from bunny_probe.plots.arena import ranking_radar as ranking_radar
    from bunny_probe.plots.bands import entropy_band as entropy_band
    from bunny_probe.plots.bars import outcome_bars as outcome_bars
    from bunny_probe.plots.character import consistency_by_length as consistency_by_length
    from bunny_probe.plots.character import entropy_map as entropy_map
    from bunny_probe.plots.character import portrait as portrait
    from bunny_probe.plots.character import setting_curve as setting_curve
    from bunny_probe.plots.curves import decay_curve as decay_curve
    from bunny_probe.plots.dots import comparison_dots as comparison_dots
    from bunny_probe.plots.edits import edit_shifts as edit_shifts
    from bunny_probe.plots.heatmaps import recall_heatmap as recall_heatmap
    from bunny_probe.plots.heatmaps import wrong_anchor_heatmap as wrong_anchor_heatmap
    from bunny_probe.plots.intervals import contrast_dots as contrast_dots
    from bunny_probe.plots.intervals import damage_curves as damage_curves
    from bunny_probe.plots.intervals import group_dots as group_dots
    from bunny_probe.plots.lengths import length_panels as length_panels
    from bunny_probe.plots.lengths import percentile_ribbon as percentile_ribbon
    from bunny_probe.plots.memory import attention_by_layer as attention_by_layer
    from bunny_probe.plots.memory import block_size_costs as block_size_costs
    from bunny_probe.plots.memory import policy_costs as policy_costs
    from bunny_probe.plots.surface import depth_curves as depth_curves
    from bunny_probe.plots.timing import latency_ecdf as latency_ecdf
    from bunny_probe.plots.timing import ttft_by_length as ttft_by_length
    from bunny_probe.plots.unreferenced import unreferenced_curve as unreferenced_curve

_HOMES = {
    "COLOURS": "_look",
    "alt_text": "_look",
    "attention_by_layer": "memory",
    "block_size_costs": "memory",
    "policy_costs": "memory",
    "comparison_dots": "dots",
    "decay_curve": "curves",
    "edit_shifts": "edits",
    "entropy_band": "bands",
    "entropy_map": "character",
    "latency_ecdf": "timing",
    "consistency_by_length": "character",
    "contrast_dots": "intervals",
    "damage_curves": "intervals",
    "depth_curves": "surface",
    "group_dots": "intervals",
    "length_panels": "lengths",
    "outcome_bars": "bars",
    "pareto_front": "arena",
    "percentile_ribbon": "lengths",
    "portrait": "character",
    "preference_dots": "arena",
    "ranking_dots": "arena",
    "ranking_radar": "arena",
    "recall_heatmap": "heatmaps",
    "setting_curve": "character",
    "ttft_by_length": "timing",
    "unreferenced_curve": "unreferenced",
    "wrong_anchor_heatmap": "heatmaps",
}

__all__ = sorted([*_HOMES, "style"])


def style() -> Any:
    """The house style as a context: `with plots.style(): …`."""
    return import_module(f"{__name__}._look").style()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
