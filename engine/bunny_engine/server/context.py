"""What every route works with: the engine, the one path to token ids, and the names the model answers to."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.requests import Request

from bunny_engine.server.body import read_object
from bunny_engine.server.errors import model_not_found
from bunny_engine.server.fields import Table
from bunny_engine.server.metrics import Metrics
from bunny_engine.server.prompts import PromptEncoder
from bunny_engine.server.settings import Settings
from bunny_engine.server.text import Vocabulary
from bunny_engine.types import Engine, Tokenizer

__all__ = ["Context"]


class Context:
    def __init__(self, engine: Engine, tokenizer: Tokenizer, settings: Settings, metrics: Metrics) -> None:
        self.engine, self.settings, self.metrics = engine, settings, metrics
        self.info = engine.info
        self.names = tuple(dict.fromkeys((self.info.name, *settings.aliases)))
        self.vocabulary = Vocabulary(tokenizer, self.info.vocab_size)
        self.encoder = PromptEncoder(tokenizer, self.vocabulary, self.info.context_length, settings.now)
        self.decode = tokenizer.decode
        self.version = _version()
        # what a seed's answer depends on beside the request
        self.fingerprint = f"bunny_engine-{self.version}-{self.info.device}-{self.info.dtype}"

    async def read(self, request: Request, table: Table) -> dict[str, Any]:
        """The body's checked fields. Raises ApiError for a bad body, field or model name."""
        return self.check(table.read(await self.body(request)))

    async def body(self, request: Request) -> dict[str, Any]:
        return await read_object(request, self.settings.max_body_bytes)

    def check(self, given: dict[str, Any]) -> dict[str, Any]:
        if "model" in given:
            self.require(given["model"])
        return given

    def require(self, model: str) -> None:
        """Raises ApiError (404) for a name that the model does not answer to."""
        if model not in self.names:
            raise model_not_found(model, self.names)


def _version() -> str:
    try:
        return version("space-bunny")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "unknown"
