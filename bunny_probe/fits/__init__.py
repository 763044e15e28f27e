"""Estimates that say how sure they are: dataclasses of parameters whose call maps a frame to a result.

Each result has `status` ("ok", "censored", "refused"), `reason`, `.sentence()`, `.table()` and `.to_json()`.
Names are loaded when first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bunny_probe.fits.adaptive import NextLength as NextLength
    from bunny_probe.fits.adaptive import Tried as Tried
    from bunny_probe.fits.adaptive import WindowBelief as WindowBelief
    from bunny_probe.fits.adaptive import WindowSearch as WindowSearch
    from bunny_probe.fits.agreement import Agreement as Agreement
    from bunny_probe.fits.agreement import AgreementFit as AgreementFit
    from bunny_probe.fits.agreement import fingerprint as fingerprint
    from bunny_probe.fits.audit import ScorerEdits as ScorerEdits
    from bunny_probe.fits.audit import ScorerEditsFit as ScorerEditsFit
    from bunny_probe.fits.audit import ScorerSwaps as ScorerSwaps
    from bunny_probe.fits.audit import ScorerSwapsFit as ScorerSwapsFit
    from bunny_probe.fits.bradley_terry import BradleyTerry as BradleyTerry
    from bunny_probe.fits.bradley_terry import BradleyTerryFit as BradleyTerryFit
    from bunny_probe.fits.collapse import Collapse as Collapse
    from bunny_probe.fits.collapse import CollapseFit as CollapseFit
    from bunny_probe.fits.compare import Compare as Compare
    from bunny_probe.fits.compare import CompareFit as CompareFit
    from bunny_probe.fits.compare import Question as Question
    from bunny_probe.fits.contrasts import ContrastRow as ContrastRow
    from bunny_probe.fits.contrasts import Contrasts as Contrasts
    from bunny_probe.fits.contrasts import ContrastsFit as ContrastsFit
    from bunny_probe.fits.decay import Decay as Decay
    from bunny_probe.fits.decay import DecayFit as DecayFit
    from bunny_probe.fits.distribution import Distribution as Distribution
    from bunny_probe.fits.distribution import DistributionFit as DistributionFit
    from bunny_probe.fits.distribution import Percentile as Percentile
    from bunny_probe.fits.entropy import Entropy as Entropy
    from bunny_probe.fits.entropy import EntropyFit as EntropyFit
    from bunny_probe.fits.entropy_bounds import token_entropy_bounds as token_entropy_bounds
    from bunny_probe.fits.groups import Groups as Groups
    from bunny_probe.fits.groups import GroupsFit as GroupsFit
    from bunny_probe.fits.outcomes import Outcomes as Outcomes
    from bunny_probe.fits.outcomes import OutcomesFit as OutcomesFit
    from bunny_probe.fits.power import PlanForDifference as PlanForDifference
    from bunny_probe.fits.power import PlanForShare as PlanForShare
    from bunny_probe.fits.power import SampleSize as SampleSize
    from bunny_probe.fits.proportions import wilson as wilson
    from bunny_probe.fits.ranking import Ranking as Ranking
    from bunny_probe.fits.ranking import RankingFit as RankingFit
    from bunny_probe.fits.recall import Recall as Recall
    from bunny_probe.fits.recall import RecallFit as RecallFit
    from bunny_probe.fits.result import Counts as Counts
    from bunny_probe.fits.result import Crossing as Crossing
    from bunny_probe.fits.result import Estimate as Estimate
    from bunny_probe.fits.result import Result as Result
    from bunny_probe.fits.robust import RobustDecay as RobustDecay
    from bunny_probe.fits.robust import RobustDecayFit as RobustDecayFit
    from bunny_probe.fits.surface import RecallSurface as RecallSurface
    from bunny_probe.fits.surface import RecallSurfaceFit as RecallSurfaceFit
    from bunny_probe.fits.unreferenced import Unreferenced as Unreferenced
    from bunny_probe.fits.unreferenced import UnreferencedFit as UnreferencedFit
    from bunny_probe.fits.window import Window as Window
    from bunny_probe.fits.window import WindowFit as WindowFit

_HOMES = {
    "Agreement": "agreement",
    "AgreementFit": "agreement",
    "BradleyTerry": "bradley_terry",
    "BradleyTerryFit": "bradley_terry",
    "Collapse": "collapse",
    "CollapseFit": "collapse",
    "Compare": "compare",
    "CompareFit": "compare",
    "ContrastRow": "contrasts",
    "Contrasts": "contrasts",
    "ContrastsFit": "contrasts",
    "Counts": "result",
    "Crossing": "result",
    "Decay": "decay",
    "DecayFit": "decay",
    "Distribution": "distribution",
    "DistributionFit": "distribution",
    "Entropy": "entropy",
    "EntropyFit": "entropy",
    "Estimate": "result",
    "Groups": "groups",
    "GroupsFit": "groups",
    "NextLength": "adaptive",
    "Outcomes": "outcomes",
    "OutcomesFit": "outcomes",
    "Percentile": "distribution",
    "PlanForDifference": "power",
    "PlanForShare": "power",
    "Question": "compare",
    "Ranking": "ranking",
    "RankingFit": "ranking",
    "Recall": "recall",
    "RecallFit": "recall",
    "RecallSurface": "surface",
    "RecallSurfaceFit": "surface",
    "Result": "result",
    "RobustDecay": "robust",
    "RobustDecayFit": "robust",
    "SampleSize": "power",
    "ScorerEdits": "audit",
    "ScorerEditsFit": "audit",
    "ScorerSwaps": "audit",
    "ScorerSwapsFit": "audit",
    "Tried": "adaptive",
    "Unreferenced": "unreferenced",
    "UnreferencedFit": "unreferenced",
    "Window": "window",
    "WindowBelief": "adaptive",
    "WindowFit": "window",
    "WindowSearch": "adaptive",
    "fingerprint": "agreement",
    "token_entropy_bounds": "entropy_bounds",
    "wilson": "proportions",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
