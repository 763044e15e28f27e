"""/v1/score: how likely one text is after another, by the model's own log-likelihood; no embedding.

The fields are those of vLLM's route of this name, so its clients work: `text_1` is what comes first, `text_2`
what is scored; each a string or an array, one `text_1` for all or one for each. The score is
log p(text_2 | text_1), the sum over text_2's tokens of their natural log-probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from bunny_engine.server.context import Context
from bunny_engine.server.errors import bad_request, context_exceeded, failure, json_response
from bunny_engine.server.fields import Table, Text, Texts
from bunny_engine.server.gate import trace_of
from bunny_engine.server.generation import Work, running
from bunny_engine.server.requests import IGNORED
from bunny_engine.server.shapes import logprob
from bunny_engine.server.trace import Tally, Trace
from bunny_engine.server.watched import Watched, plain
from bunny_engine.types import PromptStart, SamplingParams

__all__ = ["score"]

_SCORE = Table(
    {"model": Text(), "text_1": Texts(), "text_2": Texts()}, IGNORED, required=("model", "text_1", "text_2")
)


async def score(context: Context, request: Request) -> Response:
    given = await context.read(request, _SCORE)
    firsts, seconds = given["text_1"], given["text_2"]
    if len(firsts) == 1:
        firsts = firsts * len(seconds)
    if len(firsts) != len(seconds):
        raise bad_request(
            f"text_1 has {len(firsts)} texts and text_2 has {len(seconds)}: give one text_1, or one for each.",
            "text_1",
        )
    if len(seconds) > (most := context.settings.max_choices):
        raise bad_request(f"text_2 has {len(seconds)} texts; at most {most}.", "text_2")
    before = await context.encoder.prompts(firsts, markers=False, bounded=False)
    whole = await context.encoder.prompts(
        [first + second for first, second in zip(firsts, seconds, strict=True)], markers=False
    )
    starts = [_shared(head, ids) for head, ids in zip(before, whole, strict=True)]
    for index, (ids, start) in enumerate(zip(whole, starts, strict=True)):
        if len(ids) > context.info.context_length:
            raise context_exceeded(context.info.context_length, len(ids), None, "text_2")
        if start == 0:
            raise bad_request("text_1 is empty, and nothing is before its first token.", f"text_1[{index}]")
        if start == len(ids):
            raise bad_request("text_2 is empty: there is nothing to score.", f"text_2[{index}]")
    return Scores(context, whole, starts, trace_of(request.scope))


def _shared(head: Sequence[int], whole: Sequence[int]) -> int:
    """Tokens that both begin with. A token across the border belongs to what is scored."""
    same = 0
    for one, other in zip(head, whole, strict=False):
        if one != other:
            break
        same += 1
    return same


class Scores(Watched):
    def __init__(
        self, context: Context, prompts: Sequence[Sequence[int]], starts: Sequence[int], trace: Trace
    ) -> None:
        super().__init__(trace)
        self._context, self._starts = context, starts
        params = SamplingParams(max_tokens=0, temperature=0.0, top_logprobs=1, prompt_logprobs=True)
        self._work = Work(prompts, [params] * len(prompts), 1, ())
        self._tally = trace.tally = Tally(sum(map(len, prompts)), 1, trace.began)

    async def send(self, send: Send) -> None:
        try:
            response = json_response(await self._answer())
        except Exception as fault:
            response = failure(fault)
        await plain(response, send)

    async def _answer(self) -> Mapping[str, Any]:
        context, found = self._context, {}
        parallel = context.settings.parallel_choices
        async with running(context.engine, context.vocabulary, self._work, parallel) as events:
            async for index, what in events:
                self._tally.note(index, what)
                if isinstance(what, PromptStart):
                    found[index] = self._row(index, what)
        return {
            "id": "score-" + uuid4().hex,
            "object": "list",
            "created": int(time.time()),
            "model": context.info.name,
            "data": [found[index] for index in sorted(found)],
            "usage": self._tally.usage(),
        }

    def _row(self, index: int, start: PromptStart) -> Mapping[str, Any]:
        ids, first = self._work.prompts[index], self._starts[index]
        values, greedy = [], True
        for token_id, scored in zip(ids[first:], start.prompt_logprobs[first:], strict=True):
            value, top = scored or (None, ())
            values.append(logprob(token_id, value, top))
            greedy = greedy and values[-1] >= max(number for _, number in top)
        return {
            "index": index,
            "object": "score",
            "score": sum(values),
            "tokens": len(values),
            "is_greedy": greedy,  # whether the model, always taking the likeliest token, would write it
        }
