"""The records that flow through the instrument: frozen, slotted, one line a field.

    Probe ─(Trial)─▶ Rendered ─▶ Attempt … Attempt ─▶ Observation ─▶ Score

Identity is content. A probe's `id` is a hash of all that defines it, so the same suite and seed give the
same ids on every machine. A prompt is rendered late from its `Recipe` and never stored whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, cast

__all__ = [
    "Anchor",
    "Attempt",
    "Decoding",
    "Expectation",
    "Filler",
    "Insertion",
    "Message",
    "Observation",
    "Outcome",
    "Probe",
    "Recipe",
    "Rendered",
    "Score",
    "Timing",
    "TokenTrace",
    "Trial",
    "Usage",
    "canonical_json",
    "content_hash",
    "from_json",
    "to_json",
]

Role = Literal["system", "user", "assistant"]


# ── identity ────────────────────────────────────────────────────────────────────────────────────────


def to_json(record: Any) -> Any:
    """A record as JSON values (dicts, lists, strings, numbers). Undone by `from_json`."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {f.name: to_json(getattr(record, f.name)) for f in fields(record)}
    if isinstance(record, Mapping):
        return {str(key): to_json(value) for key, value in record.items()}
    if isinstance(record, tuple | list):
        return [to_json(item) for item in record]
    if isinstance(record, StrEnum):
        return record.value
    return record


def canonical_json(value: Any) -> str:
    """The one text of a value: sorted keys, no spaces, no NaN, characters as they are."""
    return json.dumps(
        to_json(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(value: Any, *, length: int = 20) -> str:
    """The first `length` hex digits of SHA-256 over `canonical_json(value)`."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()[:length]


# ── what is asked ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """A planted fact."""

    key: str  # unique in its prompt: what the question names
    value: str  # the wanted answer when this anchor is asked
    text: str  # the sentence as planted
    depth: float | None  # asked depth, 0 (start) to 1 (end); None when it is placed from the end
    asked: bool = False  # whether this probe's question is about this anchor


@dataclass(frozen=True, slots=True)
class Expectation:
    """How an answer is judged. `scorer` names an entry of `bunny_probe.scores`."""

    scorer: str
    answers: tuple[str, ...] = ()  # accepted answers, or all wanted items where the scorer counts several
    distractors: tuple[str, ...] = ()  # values that stand in the prompt and are wrong here
    params: Mapping[str, Any] = field(default_factory=dict)  # the scorer's own parameters, JSON values
    chance: float = 0.0  # expected score of an answer given at random


@dataclass(frozen=True, slots=True)
class Insertion:
    """A text placed into the filler at a sentence border."""

    text: str
    depth: float | None = None  # fraction of the filler's tokens that stand before it
    from_end: int | None = None  # or: tokens of filler that stand behind it


@dataclass(frozen=True, slots=True)
class Filler:
    """Where the filling text comes from. The same filler gives the same stream of sentences for ever."""

    kind: str  # a generator in bunny_probe.text: "haystack", …
    language: str = "en"
    domain: str = "contract"
    seed: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)  # the generator's own parameters


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that is needed to write the prompt again, without the filling text itself."""

    head: str  # user text before the filler
    tail: str  # user text behind it; the question
    filler: Filler | None = None  # None: the prompt is head + tail, at its natural length
    insertions: tuple[Insertion, ...] = ()
    system: str | None = None
    turns: tuple[Message, ...] = ()  # fixed messages between the system message and the last user message


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an answer is drawn. None means: the field is not sent."""

    max_tokens: int = 64
    temperature: float | None = 0.0
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None  # not an OpenAI field; sent only when set
    top_logprobs: int | None = 5  # alternatives asked a token; None: no log-probabilities asked

    @property
    def id(self) -> str:
        return content_hash(self, length=12)


@dataclass(frozen=True, slots=True)
class Probe:
    """One input, what is expected of it, and its coordinates."""

    family: str
    task: str
    recipe: Recipe
    expectation: Expectation
    length_tokens: int | None  # prompt tokens that the server will count; None: natural length
    depth: float | None = None  # of the asked anchor
    variant: str = ""  # which of a task's forms, for example a clause order or an edge kind
    language: str = "en"
    domain: str = ""
    seed: int = 0
    cluster: str = ""  # probes that share a document share this: the unit of the bootstrap
    max_tokens: int = 64
    anchors: tuple[Anchor, ...] = ()
    id: str = ""  # filled in from the content

    def __post_init__(self) -> None:
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "id"}
        expected = content_hash(content)
        if self.id and self.id != expected:
            raise ValueError(f"probe id {self.id} does not match its content ({expected})")
        object.__setattr__(self, "id", expected)


@dataclass(frozen=True, slots=True)
class Trial:
    """One thing to ask: (probe, decoding, repeat); with the endpoint's fingerprint it keys an observation."""

    probe: Probe
    decoding: Decoding
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as it is sent."""

    messages: tuple[Message, ...]
    intended_tokens: int | None  # what the server should count, by the counter used; None when it is not known
    prompt_hash: str  # SHA-256 over the messages' canonical JSON
    counter: str  # fingerprint of the counter that measured it
    exact: bool = True  # False: `intended_tokens` is an estimate
    tokenised: int = 0  # tokens that were encoded to build it (the cost of building)


# ── what came back ──────────────────────────────────────────────────────────────────────────────────


class Outcome(StrEnum):
    """Why an attempt ended. Only `ANSWERED` is ever scored."""

    ANSWERED = "answered"
    OUTPUT_BUDGET = "output_budget"  # finish reason says the output limit was reached
    REFUSAL = "refusal"  # the API's own refusal marker
    EMPTY = "empty"  # a proper end without any content
    PROMPT_TRUNCATED = "prompt_truncated"  # the server counted fewer prompt tokens than were sent
    CONTEXT_REFUSED = "context_refused"  # too long, said so
    CONTENT_FILTER = "content_filter"
    RATE_LIMITED = "rate_limited"  # 429
    SERVER_ERROR = "server_error"  # 5xx
    STREAM_ERROR = "stream_error"  # an error object inside a 200 stream
    CUT_STREAM = "cut_stream"  # the stream ended without a terminal marker
    TIMEOUT = "timeout"
    MALFORMED = "malformed"  # not the dialect's JSON
    TRANSPORT = "transport"  # refused, reset, DNS, TLS
    UNAUTHORISED = "unauthorised"  # 401, 403
    NOT_FOUND = "not_found"  # 404: no such model or path
    BAD_REQUEST = "bad_request"  # another 4xx

    @property
    def transient(self) -> bool:
        """Whether asking again may help."""
        return self in {
            Outcome.RATE_LIMITED,
            Outcome.SERVER_ERROR,
            Outcome.STREAM_ERROR,
            Outcome.CUT_STREAM,
            Outcome.TIMEOUT,
            Outcome.MALFORMED,
            Outcome.TRANSPORT,
        }


@dataclass(frozen=True, slots=True)
class Timing:
    """Moments of an attempt in nanoseconds after `sent`; negative ones lie before it. None: not seen."""

    started_at: float  # wall clock at `sent`, seconds since the epoch
    scheduled: int | None = None  # when an open-loop schedule wanted it sent
    connected: int | None = None
    headers: int | None = None
    first_byte: int | None = None
    first_event: int | None = None
    first_reasoning: int | None = None
    first_content: int | None = None  # first non-empty content: the end of TTFT, never the role chunk
    last_content: int | None = None
    end: int | None = None
    connection_reused: bool | None = None
    client_lag: int | None = None  # the event loop's own worst lateness during the attempt
    valid: bool = True  # False: the client was saturated, do not read these as the server's
    includes_sdk: bool = False  # True: measured through an SDK, not off the socket


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """The answer token by token. All tuples have one entry a token, or are empty when not offered."""

    text: tuple[str, ...] = ()
    logprob: tuple[float, ...] = ()  # natural logarithm
    top: tuple[tuple[tuple[str, float], ...], ...] = ()  # alternatives with their log-probabilities, best first
    arrival: tuple[int, ...] = ()  # ns after `sent`; tokens of one chunk share it
    bytes_: tuple[bytes, ...] = ()  # the token's raw bytes, when the server gives them
    source: Literal["logprobs", "chunks", "none"] = "none"  # what the token borders come from


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts as the server gave them. None: not given."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None  # in USD, when the provider says
    source: Literal["usage", "logprobs", "chunks", "none"] = "none"  # where completion_tokens comes from


@dataclass(frozen=True, slots=True)
class Attempt:
    """One HTTP exchange, whatever came of it."""

    outcome: Outcome
    evidence: str  # what shows the outcome, in one line, without secrets
    text: str = ""
    reasoning: str = ""
    stop_reason: str | None = None  # as the server named it
    status: int | None = None  # HTTP status
    error_code: str | None = None
    retry_after: float | None = None  # seconds
    timing: Timing | None = None
    trace: TokenTrace = field(default_factory=TokenTrace)
    usage: Usage = field(default_factory=Usage)
    reported_model: str | None = None
    dropped_fields: tuple[str, ...] = ()  # optional request fields that the endpoint would not take


@dataclass(frozen=True, slots=True)
class Observation:
    """The attempt that counts for (probe, endpoint, decoding, repeat)."""

    probe_id: str
    endpoint: str  # the endpoint's fingerprint
    decoding: Decoding
    repeat: int
    attempt: Attempt
    attempts: int  # how many were made, this one included
    prompt_hash: str
    intended_tokens: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """A scorer's number for one observation. `value` is None where nothing could be judged."""

    scorer: str
    value: float | None  # in [0, 1]
    label: str  # "hit", "miss", "wrong_anchor", "abstain", "partial", "pass", "fail", "not_scored"; for two
    # clauses in conflict also "first_wins", "last_wins", "reasoned"
    reason: str  # what decided it, in one line
    details: Mapping[str, Any] = field(default_factory=dict)


# ── JSON back into records ──────────────────────────────────────────────────────────────────────────


def from_json(kind: type[Any], value: Any) -> Any:
    """The record of type `kind` that `to_json` made `value` from.

    Written out for the records that are stored (probes and decodings), so a damaged file fails here
    with a KeyError or TypeError and not three modules later.
    """
    if kind is Probe:
        data = dict(value)
        data["recipe"] = _recipe(data["recipe"])
        data["expectation"] = _expectation(data["expectation"])
        data["anchors"] = tuple(Anchor(**anchor) for anchor in data["anchors"])
        return Probe(**data)
    if kind is Decoding:
        return replace(Decoding(**{**value, "stop": ()}), stop=tuple(value["stop"]))
    raise TypeError(f"{kind.__name__} is not read from JSON")


def _recipe(value: Mapping[str, Any]) -> Recipe:
    filler = value["filler"]
    return Recipe(
        head=value["head"],
        tail=value["tail"],
        filler=None if filler is None else Filler(**filler),
        insertions=tuple(Insertion(**item) for item in value["insertions"]),
        system=value["system"],
        turns=tuple(Message(cast(Role, item["role"]), item["content"]) for item in value["turns"]),
    )


def _expectation(value: Mapping[str, Any]) -> Expectation:
    return Expectation(
        scorer=value["scorer"],
        answers=tuple(value["answers"]),
        distractors=tuple(value["distractors"]),
        params=value["params"],
        chance=value["chance"],
    )
