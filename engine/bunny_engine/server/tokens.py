"""/tokenize and /detokenize: the server's own count of any text or conversation, by the path that generates."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from bunny_engine.server.context import Context
from bunny_engine.server.errors import bad_request, json_response
from bunny_engine.server.fields import Flag, JsonObject, Table, Text
from bunny_engine.server.messages import Messages, Prompts, TokenIds

__all__ = ["detokenize", "tokenize"]

_TOKENIZE = Table(
    {
        "model": Text(),
        "prompt": Prompts(),
        "messages": Messages(),
        "add_special_tokens": Flag(),
        "parse_special": Flag(),
        "add_generation_prompt": Flag(),
        "continue_final_message": Flag(),
        "chat_template_kwargs": JsonObject(),
        "return_token_strs": Flag(),
        "count_only": Flag(),
    }
)

_DETOKENIZE = Table({"model": Text(), "tokens": TokenIds()}, required=("tokens",))


async def tokenize(context: Context, request: Request) -> Response:
    """A string or messages give a flat `tokens`; a list of strings gives a list of lists and `counts`."""
    body = await context.body(request)
    given = context.check(_TOKENIZE.read(body))
    if ("prompt" in given) == ("messages" in given):
        raise bad_request("Give either prompt or messages.", "prompt")
    if "messages" in given:
        going_on = given.get("continue_final_message", False)
        rows = [
            await context.encoder.chat(
                given["messages"],
                bounded=False,
                add_generation_prompt=given.get("add_generation_prompt", not going_on),
                continue_final_message=going_on,
                variables=given.get("chat_template_kwargs"),
            )
        ]
    else:
        rows = await context.encoder.prompts(
            given["prompt"],
            prefix=given.get("add_special_tokens", True),
            markers=given.get("parse_special", True),
            bounded=False,
        )
    several = isinstance(body.get("prompt"), list)
    answer: dict[str, Any] = {"count": sum(map(len, rows)), "max_model_len": context.info.context_length}
    if several:
        answer["counts"] = [len(row) for row in rows]
    if not given.get("count_only"):
        answer["tokens"] = rows if several else rows[0]
        if given.get("return_token_strs"):
            names = [[context.vocabulary.name_of(token_id) for token_id in row] for row in rows]
            answer["token_strs"] = names if several else names[0]
    return json_response(answer)


async def detokenize(context: Context, request: Request) -> Response:
    given = await context.read(request, _DETOKENIZE)
    context.encoder.check_ids(given["tokens"], "tokens")
    return json_response({"prompt": context.decode(given["tokens"])})
