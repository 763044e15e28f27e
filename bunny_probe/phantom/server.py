"""The routes of the phantom."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from bunny_probe.errors import UsageError
from bunny_probe.phantom.answering import Answering
from bunny_probe.phantom.ask import ApiError, Fields
from bunny_probe.phantom.dialects import DIALECTS
from bunny_probe.phantom.faults import FAULTS
from bunny_probe.phantom.models import Model
from bunny_probe.phantom.refusals import json_response, no_such_model
from bunny_probe.phantom.script import Script
from bunny_probe.phantom.stats import Stats
from bunny_probe.phantom.tokens import chat_tokens
from bunny_probe.phantom.truth import Key

__all__ = ["build_app"]

_LARGEST_BODY = 1 << 30  # bytes
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(
    models: Mapping[str, Model],
    *,
    stats: Stats,
    script: Script,
    key: Key,
    patterns: Sequence[re.Pattern[str]] = (),
    api_key: str | None = None,
) -> web.Application:
    """The application; `models` by every name they answer to."""
    answering = Answering(dict(models), stats, script, key, patterns, api_key)
    pages = _Pages(models, stats, script, answering)
    app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[_errors])
    app.add_routes(
        [
            web.post("/v1/chat/completions", answering.chat),
            web.post("/v1/completions", answering.completions),
            web.post("/v1/messages", answering.messages),
            web.post("/v1/messages/count_tokens", pages.count_tokens),
            web.get("/v1/models", pages.models),
            web.get("/v1/models/{model}", pages.model),
            web.get("/v1/key", pages.key),
            web.post("/tokenize", pages.tokenize),
            web.post("/v1/tokenize", pages.tokenize),
            web.get("/health", pages.health),
            web.get("/phantom/stats", pages.stats),
            web.post("/phantom/reset", pages.reset),
            web.post("/phantom/script", pages.script),
            web.get("/phantom/models", pages.behaviours),
            web.get("/phantom/faults", pages.faults),
        ]
    )
    return app


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """API errors and unknown paths in the shape that clients read."""
    dialect = DIALECTS["anthropic" if request.path.startswith("/v1/messages") else "chat"]
    try:
        return await handler(request)
    except ApiError as error:
        return json_response(dialect.error(error), error.status, error.headers)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        message = f"{request.method} {request.path}: {error.reason}"
        return json_response(dialect.error(ApiError(error.status, message)), error.status)
    except (ConnectionError, web.RequestPayloadError):
        if request.transport is not None and not request.transport.is_closing():
            raise
        return web.Response(status=499)  # the client has gone: that is its affair, and nobody reads this


class _Pages:
    """All that is not an answer."""

    def __init__(self, models: Mapping[str, Model], stats: Stats, script: Script, answering: Answering) -> None:
        self._models, self._stats, self._script, self._answering = models, stats, script, answering

    async def health(self, request: web.Request) -> web.Response:
        return json_response({"status": "ok", "server": "phantom"})

    async def models(self, request: web.Request) -> web.Response:
        self._answering.authorise(request)
        listed = {model.behaviour.model: _card(model) for model in self._models.values()}
        return json_response({"object": "list", "data": list(listed.values())})

    async def model(self, request: web.Request) -> web.Response:
        self._answering.authorise(request)
        return json_response(_card(self._find(request.match_info["model"])))

    async def key(self, request: web.Request) -> web.Response:
        """What OpenRouter tells of a key."""
        self._answering.authorise(request)
        data = {"label": "phantom", "usage": self._stats.cost, "limit": None, "is_free_tier": False}
        return json_response({"data": data})

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await _body(request)
        model = self._find(body["model"]) if isinstance(body.get("model"), str) else self._first
        return json_response(await asyncio.to_thread(_tokenize, model, body))

    async def count_tokens(self, request: web.Request) -> web.Response:
        self._answering.authorise(request)
        body = await _body(request)
        (ask,) = DIALECTS["anthropic"].parse({"max_tokens": 1, **body})
        count = await asyncio.to_thread(self._find(ask.model).count, ask)
        return json_response({"input_tokens": count})

    async def stats(self, request: web.Request) -> web.Response:
        log = request.query.get("log", "0") not in ("0", "false", "")
        return json_response(self._stats.snapshot(log=log))

    async def reset(self, request: web.Request) -> web.Response:
        """Forgets counts, script and prefix caches."""
        self._stats.reset()
        self._script.clear()
        for model in self._models.values():
            if model.cache is not None:
                model.cache.clear()
        return json_response({"reset": True})

    async def script(self, request: web.Request) -> web.Response:
        """Adds {"faults": ["rate-limit:1", "none", …]} to the script."""
        faults = (await _body(request)).get("faults")
        if not isinstance(faults, list) or not all(isinstance(fault, str) for fault in faults):
            raise ApiError(400, "faults must be a list of strings", param="faults")
        try:
            self._script.extend(faults)
        except UsageError as error:
            raise ApiError(400, str(error), param="faults") from None
        return json_response({"left": len(self._script)})

    async def behaviours(self, request: web.Request) -> web.Response:
        return json_response(
            {model.behaviour.model: model.behaviour.settings() for model in self._models.values()}
        )

    async def faults(self, request: web.Request) -> web.Response:
        table = {
            name: {
                "level": kind.level,
                "outcome": kind.outcome,
                "summary": kind.summary,
                "default": kind.default,
            }
            for name, kind in FAULTS.items()
        }
        return json_response(table)

    @property
    def _first(self) -> Model:
        return next(iter(self._models.values()))

    def _find(self, name: str) -> Model:
        if name not in self._models:
            raise no_such_model(name)
        return self._models[name]


def _card(model: Model) -> dict[str, Any]:
    behaviour = model.behaviour
    return {
        "id": behaviour.model,
        "object": "model",
        "created": 0,
        "owned_by": "phantom",
        "max_model_len": behaviour.context_limit,
        "context_length": behaviour.context_limit,
        "pricing": {
            "prompt": f"{behaviour.price.prompt:.12f}",
            "completion": f"{behaviour.price.completion:.12f}",
        },
    }


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        return Fields(orjson.loads(await request.read())).body
    except orjson.JSONDecodeError:
        raise ApiError(400, "The request body is not valid JSON.") from None


def _tokenize(model: Model, body: dict[str, Any]) -> dict[str, Any]:
    """Counts a text, a list of texts, or messages with their template."""
    fields = Fields(body)
    bare, texts_wanted = fields.flag("count_only"), fields.flag("return_token_strs")
    result: dict[str, Any] = {"max_model_len": model.behaviour.context_limit}
    if body.get("messages") is not None:
        chat = fields.messages()
        prompt = True if body.get("add_generation_prompt") is None else fields.flag("add_generation_prompt")
        result["count"] = chat_tokens(model.tokenizer, chat, generation_prompt=prompt)
        texts = [content for _, content in chat]
        # The template's own marks have no text: role opens, end closes, and one opens the answer.
        marks, tail = 2, int(prompt)
    else:
        value = body.get("prompt")
        texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        if not all(isinstance(text, str) for text in texts) or value is None or isinstance(value, dict):
            raise fields.wrong("prompt", "must be a string or a list of strings")
        marks, tail = 0, 0
        counts = [model.tokenizer.count(text) for text in texts]
        result["count"] = sum(counts)
        if isinstance(value, list):
            result["counts"] = counts
    if bare:
        return result
    ids: list[int] = []
    strings: list[str] = []
    for text in texts:
        pieces = model.tokenizer.pieces(text)
        opening, closing = ([1], [2]) if marks else ([], [])
        ids += [*opening, *(piece.id for piece in pieces), *closing]
        strings += [*("" for _ in opening), *(piece.text for piece in pieces), *("" for _ in closing)]
    result["tokens"] = ids + [3] * tail
    if texts_wanted:
        result["token_strs"] = strings + [""] * tail
    return result
