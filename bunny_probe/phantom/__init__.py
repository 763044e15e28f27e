"""The phantom: a simulated endpoint of known truth, served over real HTTP.

It is how this library is checked, and it is here for your tests as well:

    from bunny_probe.phantom import Behaviour, Phantom

    with Phantom(Behaviour(recall="0.95 * exp(-L / 40000)", wrong_anchor=0.05)) as phantom:
        client = openai.OpenAI(base_url=phantom.url, api_key="unused")
        ...
        assert phantom.stats.snapshot()["prompts_answered_twice"] == 0

Each model name and fingerprint begins with "phantom", so that nothing it says can pass for a model's answer.
"""

from __future__ import annotations

from bunny_probe.phantom.behaviour import Behaviour, Latency, Override, Price, Rates
from bunny_probe.phantom.curves import Table
from bunny_probe.phantom.faults import FAULTS, Fault, FaultKind, parse_faults
from bunny_probe.phantom.loading import behaviours_from, load_behaviours
from bunny_probe.phantom.phantom import Phantom
from bunny_probe.phantom.presets import PRESETS, preset
from bunny_probe.phantom.process import PhantomProcess
from bunny_probe.phantom.serving import serve
from bunny_probe.phantom.stats import PromptCount, Served, Stats
from bunny_probe.phantom.tokens import FileTokenizer, WordTokenizer, chat_tokens
from bunny_probe.phantom.truth import Key, Truth, prompt_hash

__all__ = [
    "FAULTS",
    "PRESETS",
    "Behaviour",
    "Fault",
    "FaultKind",
    "FileTokenizer",
    "Key",
    "Latency",
    "Override",
    "Phantom",
    "PhantomProcess",
    "Price",
    "PromptCount",
    "Rates",
    "Served",
    "Stats",
    "Table",
    "Truth",
    "WordTokenizer",
    "behaviours_from",
    "chat_tokens",
    "load_behaviours",
    "parse_faults",
    "preset",
    "prompt_hash",
    "serve",
]
