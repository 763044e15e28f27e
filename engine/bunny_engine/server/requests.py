"""What the generating routes accept, as tables, and the checked request that comes out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bunny_engine.server.errors import bad_request
from bunny_engine.server.fields import Flag, Integer, JsonObject, Kind, Number, Only, StopStrings, Table, Text
from bunny_engine.server.messages import Message, Messages, Prompt, Prompts
from bunny_engine.types import SamplingParams

__all__ = ["IGNORED", "Generate", "read_chat", "read_completion"]

_MOST_TOKENS = 2**31 - 1
_MOST_LOGPROBS = 20
_SEEDS = 2**63

# Sent by clients, without any bearing on what a model answers.
IGNORED = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)

_BOTH: dict[str, Kind] = {
    "model": Text(),
    "temperature": Number(0, 2),
    "top_p": Number(0, 1),
    "seed": Integer(-_SEEDS, _SEEDS - 1),
    "frequency_penalty": Number(-2, 2),
    "presence_penalty": Number(-2, 2),
    "repetition_penalty": Number(0.1, 10),
    "ignore_eos": Flag(),
    "n": Integer(1, 128),
    "stop": StopStrings(most=16, longest=1024),
    "stream": Flag(),
    "stream_options": JsonObject(),
    "timings": Flag(),
    "logit_bias": Only(({},), "this engine samples from the model's own distribution"),
    "top_k": Only((0, -1), "use top_p"),
    "min_p": Only((0, 0.0), "use top_p"),
}

_TEXT = "this engine answers in free text"
_TOOLS = "this engine calls no tools"

_CHAT = Table(
    {
        **_BOTH,
        "messages": Messages(),
        "max_tokens": Integer(1, _MOST_TOKENS),
        "max_completion_tokens": Integer(1, _MOST_TOKENS),
        "logprobs": Flag(),
        "top_logprobs": Integer(0, _MOST_LOGPROBS),
        "add_generation_prompt": Flag(),
        "continue_final_message": Flag(),
        "chat_template_kwargs": JsonObject(),
        "tools": Only(([],), _TOOLS),
        "tool_choice": Only(("none", "auto"), _TOOLS),
        "parallel_tool_calls": Only((True, False), _TOOLS),
        "functions": Only(([],), _TOOLS),
        "function_call": Only(("none", "auto"), _TOOLS),
        "response_format": Only(({"type": "text"},), _TEXT),
        "modalities": Only((["text"],), _TEXT),
        "audio": Only((), _TEXT),
        "prediction": Only((), "this engine takes no predicted output"),
        "reasoning_effort": Only(("none",), "this engine's models do not reason apart from their answer"),
        "web_search_options": Only((), "this engine reaches no network"),
    },
    IGNORED,
    required=("model", "messages"),
)

_COMPLETION = Table(
    {
        **_BOTH,
        "prompt": Prompts(),
        "max_tokens": Integer(0, _MOST_TOKENS),
        "logprobs": Integer(0, _MOST_LOGPROBS),
        "echo": Flag(),
        "best_of": Integer(1, 128),
        "suffix": Only(("",), "this engine writes on from a prompt; it fills no gap"),
    },
    IGNORED,
    required=("model", "prompt"),
)

_STREAM_OPTIONS = Table({"include_usage": Flag()}, frozenset({"include_obfuscation"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """A checked request, chat or completion. `sampling.max_tokens` is set once the prompts are counted."""

    model: str
    sampling: SamplingParams
    max_tokens: int | None  # None: not named
    n: int
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    timings: bool
    messages: list[Message] = field(default_factory=list)
    template: Mapping[str, Any] = field(default_factory=dict)  # how to render them
    prompts: list[Prompt] = field(default_factory=list)
    echo: bool = False


def read_chat(body: Mapping[str, Any]) -> Generate:
    """Raises ApiError (400) naming the field."""
    given = _CHAT.read(body)
    longest = given.get("max_completion_tokens", given.get("max_tokens"))
    if given.get("max_tokens", longest) != longest:
        raise bad_request("max_tokens and max_completion_tokens differ: give one of them.", "max_tokens")
    top = given.get("top_logprobs")
    if top is not None and not given.get("logprobs"):
        raise bad_request("top_logprobs needs logprobs: true.", "top_logprobs")
    going_on = given.get("continue_final_message", False)
    if going_on and given.get("add_generation_prompt"):
        raise bad_request(
            "continue_final_message and add_generation_prompt exclude each other.", "continue_final_message"
        )
    return _generate(
        given,
        max_tokens=longest,
        top_logprobs=(top or 0) if given.get("logprobs") else None,
        messages=given["messages"],
        template={
            "add_generation_prompt": given.get("add_generation_prompt", not going_on),
            "continue_final_message": going_on,
            "variables": given.get("chat_template_kwargs"),
        },
    )


def read_completion(body: Mapping[str, Any]) -> Generate:
    """Raises ApiError (400) naming the field."""
    given = _COMPLETION.read(body)
    if given.get("best_of", given.get("n", 1)) != given.get("n", 1):
        raise bad_request("best_of is supported only where it equals n: every choice is given back.", "best_of")
    return _generate(
        given,
        max_tokens=given.get("max_tokens"),
        top_logprobs=given.get("logprobs"),
        prompts=given["prompt"],
        echo=given.get("echo", False),
    )


def _generate(
    given: Mapping[str, Any], *, max_tokens: int | None, top_logprobs: int | None, **rest: Any
) -> Generate:
    stream = given.get("stream", False)
    if "stream_options" in given and not stream:
        raise bad_request("stream_options is allowed only with stream: true.", "stream_options")
    options = _STREAM_OPTIONS.read(given.get("stream_options", {}), "stream_options.")
    seed = given.get("seed")
    return Generate(
        model=given["model"],
        sampling=SamplingParams(
            max_tokens=0,
            temperature=given.get("temperature", 1.0),
            # a nucleus of no mass still holds the likeliest token
            top_p=max(given.get("top_p", 1.0), 1e-6),
            seed=None if seed is None else seed % _SEEDS,
            frequency_penalty=given.get("frequency_penalty", 0.0),
            presence_penalty=given.get("presence_penalty", 0.0),
            repetition_penalty=given.get("repetition_penalty", 1.0),
            top_logprobs=top_logprobs,
            prompt_logprobs=rest.get("echo", False) and top_logprobs is not None,
            ignore_eos=given.get("ignore_eos", False),
        ),
        max_tokens=max_tokens,
        n=given.get("n", 1),
        stop=given.get("stop", ()),
        stream=stream,
        include_usage=options.get("include_usage", False),
        timings=given.get("timings", False),
        **rest,
    )
