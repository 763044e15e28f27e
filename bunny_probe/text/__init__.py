"""Text of exact length: counters, filling text, and how a probe becomes a prompt.

Filler ──source──▶ sentences ──Counter──▶ counts ──render──▶ Rendered, to the token
"""

from bunny_probe.text import wordlists as _wordlists  # registers its kinds of filling text
from bunny_probe.text.assemble import render
from bunny_probe.text.calibrated import CalibratedCounter
from bunny_probe.text.counting import Counter
from bunny_probe.text.fillers import FILLERS, Source, filler, source
from bunny_probe.text.haystack import domains, languages
from bunny_probe.text.remote import EndpointCounter
from bunny_probe.text.rng import Rng
from bunny_probe.text.tokens import ChatOverhead, FileCounter

del _wordlists

__all__ = [
    "FILLERS",
    "CalibratedCounter",
    "ChatOverhead",
    "Counter",
    "EndpointCounter",
    "FileCounter",
    "Rng",
    "Source",
    "domains",
    "filler",
    "languages",
    "render",
    "source",
]
