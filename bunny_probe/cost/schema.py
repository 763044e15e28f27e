"""The cost equation, written down: total = hardware + latency + quality + maintenance, each a sum of terms.

A term is a formula over the worksheet's keys; it stands in the sum when the key that `starts` it is given.
All terms are money per year; `year` is the worksheet's year.
"""

from __future__ import annotations

from dataclasses import dataclass

from bunny_probe.cost.inputs import Key

__all__ = ["DERIVED", "KEYS", "PARTS", "TERMS", "TermSpec"]

PARTS = ("hardware", "latency", "quality", "maintenance")


@dataclass(frozen=True, slots=True)
class TermSpec:
    part: str
    name: str
    starts: tuple[str, ...]  # the term stands when any of these keys is given
    formula: str
    meaning: str


_SHARE = 1.0

KEYS: dict[str, dict[str, Key]] = {
    "traffic": {
        "requests": Key("request/s", "requests per time, e.g. '100,000 requests/day'"),
        "input_tokens": Key("token/request", "prompt tokens of a request, e.g. '8,000 tokens/request'"),
        "output_tokens": Key("token/request", "answer tokens of a request"),
        "attempts": Key("", "calls made for one request, retries included", low=1.0, default="1"),
        "peak": Key("", "peak load over mean load; the machines are bought for the peak", low=1.0, default="1"),
    },
    "hardware": {
        "stated": Key("money/s", "hardware cost per time, e.g. '142,000 CNY/year'"),
        "gpus": Key("GPU", "GPUs that serve, e.g. 4"),
        "spares": Key("GPU", "failover GPUs that stand by", default="0"),
        "gpu_price": Key("money/GPU", "price of a GPU with its share of the machine, e.g. '24 万 CNY'"),
        "life": Key("s", "years until it is replaced, e.g. '4 years'", positive=True),
        "power": Key("J/s/GPU", "power drawn by a busy GPU, e.g. '0.7 kW'"),
        "idle_power": Key("J/s/GPU", "power drawn by an idle GPU", default="0 W"),
        "utilisation": Key("", "share of time a GPU is busy at most, e.g. '60 %'", high=_SHARE, positive=True),
        "pue": Key("", "power of the building over power of the machines", low=1.0, default="1"),
        "electricity": Key("money/J", "price of electricity, e.g. '0.8 CNY/kWh'"),
        "gpu_seconds": Key("s GPU/request", "GPU time that a request takes, e.g. '0.9 s'"),
        "prefill_rate": Key("token/s/GPU", "prompt tokens that one GPU reads per second", positive=True),
        "decode_rate": Key(
            "token/s/GPU", "answer tokens that one GPU writes per second, all streams", positive=True
        ),
        "other": Key("money/s", "racks, network, hosting per time"),
        "input_price": Key("money/token", "price of prompt tokens, e.g. '$0.15 / 1M tokens'"),
        "output_price": Key("money/token", "price of answer tokens"),
        "cached_share": Key(
            "", "share of prompt tokens that the provider's cache serves", high=_SHARE, default="0"
        ),
        "cached_price": Key("money/token", "price of cached prompt tokens", default="0 money/token"),
    },
    "latency": {
        "lost": Key("money/s", "margin lost to waiting per time, e.g. '15,000 CNY/day'"),
        "order_share": Key("order/request", "orders that hang on a request, e.g. '2 %'", high=_SHARE),
        "order_value": Key("money/order", "margin of an order"),
        "grace": Key("s", "wait that loses nobody", default="0 s"),
        "patience": Key("s", "wait beyond which orders are lost, see `loss`", positive=True),
        "most": Key("", "share of waiting orders lost at most", high=_SHARE, default="1"),
    },
    "quality": {
        "share": Key("", "share of requests that this kind of error concerns", high=_SHARE, default="1"),
        "review_rate": Key(
            "review/request", "share of those that a person reviews", high=_SHARE, measurable=True
        ),
        "review_cost": Key("money/review", "cost of a review"),
        "error_rate": Key("error/request", "share of those that are wrong", high=_SHARE, measurable=True),
        "compensated": Key("", "share of errors that are compensated", high=_SHARE, default="1"),
        "compensation": Key("money/error", "what a compensated error costs"),
    },
    "maintenance": {
        "stated": Key("money/s", "upkeep per time"),
        "effort": Key("person-hour/s", "working time per time, e.g. '2.5 person-days/week'"),
        "rate": Key("money/person-hour", "price of working time, e.g. '3,500 CNY/person-day'"),
    },
}

DERIVED: dict[str, str] = {
    "gpus": "ceil(peak * requests * attempts * gpu_seconds / utilisation)",
    "gpu_seconds": "input_tokens / prefill_rate + output_tokens / decode_rate",
}

TERMS: tuple[TermSpec, ...] = (
    TermSpec("hardware", "stated", ("stated",), "stated * year", "as stated"),
    TermSpec(
        "hardware", "purchase", ("gpu_price",),
        "(gpus + spares) * gpu_price / life * year", "the cards, spares included, over their life",
    ),
    TermSpec(
        "hardware", "electricity", ("power", "electricity"),
        "(gpus * (idle_power + (power - idle_power) * utilisation) + spares * idle_power)"
        " * pue * electricity * year",
        "power while busy and while idle",
    ),
    TermSpec("hardware", "other", ("other",), "other * year", "racks, network, hosting"),
    TermSpec(
        "hardware", "tokens", ("input_price", "output_price"),
        "requests * attempts * (input_tokens * ((1 - cached_share) * input_price + cached_share * cached_price)"
        " + output_tokens * output_price) * year",
        "tokens bought",
    ),
    TermSpec("latency", "stated", ("lost",), "lost * year", "margin lost to waiting, as stated"),
    TermSpec(
        "latency", "lost orders", ("order_share", "order_value"),
        "requests * order_share * lost_share * order_value * year",
        "orders whose customers did not wait, by the latency distribution",
    ),
    TermSpec(
        "quality", "review", ("review_rate", "review_cost"),
        "requests * share * review_rate * review_cost * year", "people reading answers again",
    ),
    TermSpec(
        "quality", "compensation", ("error_rate", "compensation"),
        "requests * share * error_rate * compensated * compensation * year", "errors that reached a customer",
    ),
    TermSpec("maintenance", "stated", ("stated",), "stated * year", "as stated"),
    TermSpec("maintenance", "upkeep", ("effort", "rate"), "effort * rate * year", "engineers' working time"),
)  # fmt: skip
