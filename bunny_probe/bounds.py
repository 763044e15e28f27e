"""What a campaign may spend and how fast it may ask; and what to say before it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bunny_probe.endpoints import EndpointSpec, Price, provider_price, table_price
from bunny_probe.endpoints.capabilities import Capabilities, known_capabilities
from bunny_probe.endpoints.credit import KeyLimits, key_limits
from bunny_probe.errors import EndpointError, UsageError, unknown_choice
from bunny_probe.records import Trial

if TYPE_CHECKING:
    from bunny_probe.endpoints import Endpoint
    from bunny_probe.runs import Budget

__all__ = ["ARRIVALS", "Bounds", "find_price", "look_ahead", "precautions", "stated_price"]

ARRIVALS = ("constant", "poisson")


@dataclass(frozen=True, slots=True)
class Bounds:
    """None: no such limit."""

    dollars: float | None = None
    tokens: int | None = None  # prompt and answer tokens together
    calls: int | None = None
    price: Price | Literal["provider", "table", ""] = ""  # "": the provider's, else the table's
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    rate: float | None = None  # requests a second of an open loop; None: closed loop
    arrivals: str = "poisson"  # or "constant"
    seed: int = 0  # of the arrivals

    def __post_init__(self) -> None:
        if self.arrivals not in ARRIVALS:
            raise UsageError(unknown_choice("law of arrivals", self.arrivals, ARRIVALS))

    def budget(self, price: Price | None) -> Budget:
        """The hard budget at that price. Raises UsageError for dollars without one."""
        from bunny_probe.runs import Budget

        return Budget(dollars=self.dollars, tokens=self.tokens, calls=self.calls, price=price)

    def schedule(self) -> Iterator[float] | None:
        """Seconds after the start at which to send; None in a closed loop."""
        from bunny_probe.runs.schedules import constant, poisson

        if self.rate is None:
            return None
        return constant(self.rate) if self.arrivals == "constant" else poisson(self.rate, self.seed)


def stated_price(spec: EndpointSpec, wanted: Price | str) -> Price | None:
    """The price as far as it is known without asking anybody."""
    if isinstance(wanted, Price):
        return wanted
    if spec.place is not None and wanted == "":
        return Price(0.0, 0.0, source="table", note="price of your own machine,")
    return None if wanted == "provider" else table_price(spec)


async def find_price(endpoint: Endpoint, wanted: Price | str) -> Price | None:
    """As `Bounds.price` says: given, the provider's own, or the table's; None when nobody knows it."""
    if isinstance(wanted, str) and wanted in ("", "provider") and endpoint.spec.place is None:
        try:
            if (found := await provider_price(endpoint)) is not None:
                return found
        except EndpointError:
            pass  # a server without a list of models states no price either
    return stated_price(endpoint.spec, wanted)


async def look_ahead(endpoint: Endpoint, trials: Sequence[Trial], price: Price | None) -> list[str]:
    """What a person should know before the trials are asked and paid for, a line each."""
    spec = endpoint.spec
    return precautions(trials, spec, price, known_capabilities(spec.fingerprint), await key_limits(endpoint))


def precautions(
    trials: Sequence[Trial],
    spec: EndpointSpec,
    price: Price | None,
    known: Capabilities | None,
    key: KeyLimits | None,
) -> list[str]:
    """`known`: what `doctor` found; `key`: what the provider says of the key."""
    from bunny_probe.runs import estimate

    if not trials:
        return []
    told = estimate(trials, price=price, reasoning_tokens=spec.reasoning_tokens)
    lines = []
    if told.dollars and price is not None:
        lines.append(f"at most ${told.dollars:,.4f} for what is left to ask, by the {price.told()}")
    if key is not None and key.left is not None and told.dollars is not None and key.left < told.dollars:
        lines.append(f"warning: {key.told()}, and what is left to ask may cost ${told.dollars:,.4f}")
    if known is None:
        return lines
    if known.context_limit is not None and told.longest_prompt > known.context_limit:
        many = sum((trial.probe.length_tokens or 0) > known.context_limit for trial in trials)
        lines.append(
            f"warning: {many:,} prompts are longer than the {known.context_limit:,} tokens that {spec.name} "
            "reads"
        )
    thoughts = known.reasoning_tokens or 0
    if known.reasons and spec.reasoning_tokens <= thoughts:
        limit = max(trial.decoding.max_tokens for trial in trials)
        spent = f" ({thoughts:,} tokens for an easy question)" if thoughts else ""
        room = f"{spec.reasoning_tokens:,} tokens" if spec.reasoning_tokens else "no room of its own"
        lines.append(
            f"warning: {spec.name} reasons before it answers{spent}, for which there is {room} beside at most "
            f"{limit:,} answer tokens: many answers may be paid for and never come. Allow more: "
            f"--reasoning-tokens {max(4096, 4 * thoughts)}"
        )
    if known.usage is False and price is not None and told.dollars:
        lines.append("warning: it tells no usage, so that each call is booked at its worst case")
    return lines
