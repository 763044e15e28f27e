"""The frame: the one pandas table that analysis reads, a row per observation.

`COLUMNS` is its dictionary: name → (dtype, meaning). `runs.frame` builds it, `fits` and `plots` read it.
Missing numbers are NaN (or <NA>), never 0. Times are seconds, entropies nats.
"""

from __future__ import annotations

__all__ = ["COLUMNS"]

COLUMNS: dict[str, tuple[str, str]] = {
    # coordinates
    "probe_id": ("string", "hash of the probe's content"),
    "endpoint": ("string", "name of the endpoint, for people: model at host"),
    "endpoint_id": ("string", "fingerprint of the endpoint"),
    "model": ("string", "model name that was asked for"),
    "reported_model": ("string", "model name that the endpoint reported"),
    "repeat": ("Int64", "repeat number, from 0"),
    "family": ("string", "family of the probe"),
    "task": ("string", "task within the family"),
    "variant": ("string", "form of the task"),
    "language": ("string", "language of the probe"),
    "domain": ("string", "domain of the haystack"),
    "length_tokens": ("Int64", "intended prompt tokens"),
    "depth": ("float64", "depth of the asked anchor, 0 start to 1 end"),
    "seed": ("Int64", "seed of the probe"),
    "cluster": ("string", "document that the probe shares with others: the unit of the bootstrap"),
    "decoding_id": ("string", "hash of the decoding"),
    "temperature": ("float64", "sampling temperature"),
    "repetition_penalty": ("float64", "repetition penalty as asked; NaN when it was not sent"),
    "frequency_penalty": ("float64", "frequency penalty as asked; NaN when it was not sent"),
    "presence_penalty": ("float64", "presence penalty as asked; NaN when it was not sent"),
    "decoding_seed": ("Int64", "sampling seed as asked; <NA> when it was not sent"),
    # what came of it
    "outcome": ("string", "why it ended, see records.Outcome"),
    "answered": ("boolean", "outcome is answered: the row may be scored"),
    "attempts": ("Int64", "attempts made"),
    "text": ("string", "answer text"),
    "stop_reason": ("string", "stop reason as the server named it"),
    "evidence": ("string", "what shows the outcome"),
    # scores
    "scorer": ("string", "primary scorer"),
    "score": ("float64", "score in [0, 1]; NaN when not scored"),
    "label": (
        "string",
        "hit, miss, wrong_anchor, abstain, partial, pass, fail, not_scored, first_wins, last_wins, reasoned",
    ),
    "chance": ("float64", "expected score of a random answer"),
    "reason": ("string", "what decided the score"),
    # counts
    "prompt_tokens": ("Int64", "prompt tokens by the server's usage"),
    "completion_tokens": ("Int64", "answer tokens"),
    "usage_source": ("string", "what completion_tokens is counted by: usage, logprobs, chunks or none"),
    "reasoning_tokens": ("Int64", "answer tokens that went into reasoning, by the server's usage"),
    "cached_tokens": ("Int64", "prompt tokens that came from the server's prefix cache"),
    "cost": ("float64", "USD, when the provider said"),
    # times
    "ttft_s": ("float64", "sent to first non-empty content"),
    "latency_s": ("float64", "sent to end"),
    "reasoning_ttft_s": ("float64", "sent to first non-empty reasoning"),
    "ttft_scheduled_s": ("float64", "scheduled to first content; NaN without a schedule"),
    "latency_scheduled_s": ("float64", "scheduled to end; NaN without a schedule"),
    "tpot_s": ("float64", "first content to last, over the answer tokens but one, by usage"),
    "tokens_per_chunk": ("float64", "answer tokens by usage, over the arrivals that brought content"),
    "gap_p50_s": ("float64", "median gap between content arrivals"),
    "gap_max_s": ("float64", "largest gap between content arrivals"),
    "timing_valid": ("boolean", "client was not saturated"),
    "client_lag_s": ("float64", "worst lateness of the client itself while the attempt ran"),
    "in_flight": ("Int64", "requests of the run under way when it was sent, itself included"),
    "started_at": ("float64", "wall clock at sending, seconds since the epoch"),
    # confidence
    "tokens_traced": ("Int64", "answer tokens with a log-probability"),
    "mean_logprob": ("float64", "mean log-probability of the answer's tokens"),
    "entropy_low": ("float64", "mean token entropy, unseen tail in one token (lower bound)"),
    "entropy_high": ("float64", "mean token entropy, unseen tail spread evenly (upper bound)"),
    "first_entropy_low": ("float64", "lower bound at the first answer token"),
    "first_entropy_high": ("float64", "upper bound at the first answer token"),
    "first_top": ("string", "JSON list of [token, log-probability] at the first answer token"),
}
