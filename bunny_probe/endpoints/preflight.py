"""The untimed looks at an endpoint: what it serves, and whether it can be used at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bunny_probe.endpoints.reading import decode
from bunny_probe.endpoints.refusals import outcome_of_status, parse_error
from bunny_probe.errors import (
    EndpointError,
    EndpointUnreachable,
    ModelNotFound,
    ProtocolError,
    Unauthorised,
    unknown_choice,
)
from bunny_probe.records import Attempt, Decoding, Message, Outcome

if TYPE_CHECKING:
    from bunny_probe.endpoints.client import Endpoint
    from bunny_probe.endpoints.spec import EndpointSpec

__all__ = ["check", "error_for", "list_models", "model_cards"]


async def list_models(endpoint: Endpoint) -> list[str]:
    """The ids that `GET {base}/models` lists."""
    return sorted(str(card["id"]) for card in await model_cards(endpoint))


async def model_cards(endpoint: Endpoint) -> list[dict[str, Any]]:
    """What `GET {base}/models` says of each model; each entry has at least an `id`."""
    import httpx

    spec = endpoint.spec
    try:
        response = await endpoint.http.get(spec.join("/models"))
    except httpx.ReadTimeout:
        raise EndpointUnreachable(_silent(spec, f"no list of models within {_patience(endpoint)}")) from None
    except httpx.HTTPError as failure:
        raise EndpointUnreachable(
            _unreachable(spec, endpoint.redact(str(failure) or type(failure).__name__))
        ) from None
    if response.status_code != 200:
        error = parse_error(response.content, response.status_code)
        outcome = outcome_of_status(response.status_code, error)
        evidence = endpoint.redact(f"status {response.status_code}: {error.message}")
        if outcome is Outcome.UNAUTHORISED:
            raise Unauthorised(_unauthorised(spec, evidence))
        raise ProtocolError(f"{spec.url} gives no list of models ({evidence})")
    try:
        return [dict(item) for item in decode(response.content)["data"] if "id" in item]
    except (LookupError, TypeError, ValueError):
        raise ProtocolError(
            f"{spec.url}/models does not answer as an API does: is the URL the base of one, "
            "such as http://HOST:PORT/v1?"
        ) from None


async def check(endpoint: Endpoint) -> None:
    """Reachable, key accepted, model served. A model that is not listed is asked for one token: lists are not
    always complete, and some servers have none."""
    try:
        listed = await list_models(endpoint)
    except ProtocolError:
        listed = []
    if endpoint.spec.model in listed:
        return
    attempt = await endpoint.attempt([Message("user", "Hi")], Decoding(max_tokens=1, top_logprobs=None))
    if (error := error_for(endpoint.spec, attempt, listed)) is not None:
        raise error


def error_for(spec: EndpointSpec, attempt: Attempt, listed: list[str] | None = None) -> EndpointError | None:
    """The error that an attempt means for the endpoint as a whole; None when it is about this attempt only."""
    match attempt.outcome:
        case Outcome.UNAUTHORISED:
            return Unauthorised(_unauthorised(spec, attempt.evidence))
        case Outcome.NOT_FOUND if listed:
            return ModelNotFound(unknown_choice(f"model at {spec.host}", spec.model, listed))
        case Outcome.NOT_FOUND:
            return ModelNotFound(f"{spec.url} has no model {spec.model!r} or no such path ({attempt.evidence})")
        case Outcome.TIMEOUT if attempt.status is None:
            return EndpointUnreachable(_silent(spec, attempt.evidence))
        case Outcome.TRANSPORT:
            return EndpointUnreachable(_unreachable(spec, attempt.evidence))
        case Outcome.MALFORMED:
            return ProtocolError(
                f"{spec.url} does not speak {spec.dialect} ({attempt.evidence}): check URL and dialect"
            )
        case _:
            return None


def _unreachable(spec: EndpointSpec, why: str) -> str:
    return f"nothing answers at {spec.url} ({why}): is the server up, and the URL right?"


def _silent(spec: EndpointSpec, why: str) -> str:
    return (
        f"{spec.url} takes requests and says nothing ({why}): is its model loaded, and is it not overrun? "
        "A longer --timeout waits longer"
    )


def _patience(endpoint: Endpoint) -> str:
    return f"{endpoint.http.timeout.read:g} s"


def _unauthorised(spec: EndpointSpec, evidence: str) -> str:
    variable = spec.key_env
    way_out = (
        f"check the key in the environment variable {variable}"
        if variable
        else "name the environment variable that holds the key"
    )
    return f"{spec.host} does not accept the credentials ({evidence}): {way_out}"
