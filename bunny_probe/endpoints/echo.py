"""The log-probabilities of a text's own tokens, where the completions API echoes prompts. Untimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bunny_probe.endpoints.reading import decode

if TYPE_CHECKING:
    from bunny_probe.endpoints.client import Endpoint

__all__ = ["Echoed", "echo"]


@dataclass(frozen=True, slots=True)
class Echoed:
    """The tokens of a text, one entry a token in each tuple."""

    text: tuple[str, ...]
    offset: tuple[int, ...]  # in characters of the text
    logprob: tuple[float | None, ...]  # natural logarithm, given all before; None at the first token

    def within(self, start: int, stop: int) -> list[float]:
        """The known log-probabilities of the tokens that begin in [start, stop)."""
        pairs = zip(self.offset, self.logprob, strict=True)
        return [value for at, value in pairs if start <= at < stop and value is not None]


async def echo(endpoint: Endpoint, text: str) -> Echoed | None:
    """Ask for `text` back with its log-probabilities, or None where that is not offered or not for this text.

    `text` is a raw prompt: no chat template is applied. One token is generated behind it, for servers that
    refuse none, and left out. Never raises for what the endpoint answers.
    """
    import httpx

    body = {"model": endpoint.spec.model, "prompt": text, "max_tokens": 1, "echo": True, "logprobs": 1}
    try:
        response = await endpoint.http.post(endpoint.spec.join("/completions"), json=body)
        if response.status_code != 200:
            return None
        told = decode(response.content)["choices"][0]["logprobs"]
        rows = [
            (str(token), int(at), None if value is None else float(value))
            for token, at, value in zip(
                told["tokens"], told["text_offset"], told["token_logprobs"], strict=True
            )
            if int(at) < len(text)
        ]
    except (httpx.HTTPError, LookupError, TypeError, ValueError):
        return None
    if not any(value is not None for _, _, value in rows):
        return None  # generated tokens alone, or a text of one token
    return Echoed(*(tuple(column) for column in zip(*rows, strict=True)))
