"""The dialects that the phantom speaks."""

from __future__ import annotations

from collections.abc import Mapping

from bunny_probe.phantom.ask import DialectName
from bunny_probe.phantom.dialects.anthropic import AnthropicDialect
from bunny_probe.phantom.dialects.chat import ChatDialect
from bunny_probe.phantom.dialects.completions import CompletionsDialect
from bunny_probe.phantom.steps import Dialect

__all__ = ["DIALECTS"]

DIALECTS: Mapping[DialectName, Dialect] = {
    "chat": ChatDialect(),
    "completions": CompletionsDialect(),
    "anthropic": AnthropicDialect(),
}
