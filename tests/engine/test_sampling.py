"""From logits to tokens: each parameter does what the interface says, and nothing else."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from bunny_engine.sampling import Sampler, prompt_scores, top_tokens
from bunny_engine.types import SamplingParams
from hypothesis import given, settings
from hypothesis import strategies as st

LOGITS = torch.tensor([1.0, 3.0, 2.0, 3.0, -1.0])


def sampler(prompt: list[int] | None = None, **params: object) -> Sampler:
    return Sampler(SamplingParams(max_tokens=9, **params), prompt or [])  # type: ignore[arg-type]


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    """Ties go to the lower id, in the choice and in the alternatives."""
    token, logprob, top = sampler(temperature=0.0, top_logprobs=3).pick(LOGITS)
    assert token == 1
    assert [found for found, _ in top] == [1, 3, 2]
    assert top[0][1] == logprob


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.sampled_from([-2.0, 0.0, 0.5, 0.5, 3.0]), min_size=1, max_size=40),
    count=st.integers(0, 25),
)
def test_alternatives_are_sorted_and_complete(values: list[float], count: int) -> None:
    """The best `count`, by value and then by id, whatever ties there are."""
    scores = torch.tensor(values)
    want = sorted(range(len(values)), key=lambda index: (-values[index], index))[:count]
    assert [token for token, _ in top_tokens(scores, count)] == want


def test_frequencies_follow_the_softmax() -> None:
    """Ten thousand draws at temperature 0.7 match the distribution within five standard errors."""
    drawn = sampler(temperature=0.7, seed=5)
    count = 10_000
    seen = Counter(drawn.pick(LOGITS)[0] for _ in range(count))
    want = torch.softmax(LOGITS / 0.7, 0).tolist()
    for token, share in enumerate(want):
        assert seen[token] / count == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / count))


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    """Only tokens of the nucleus are drawn; the first one always is in it."""
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05])
    for top_p, allowed in ((0.4, {0}), (0.5, {0}), (0.6, {0, 1}), (0.81, {0, 1, 2}), (1.0, {0, 1, 2, 3})):
        drawn = sampler(temperature=1.0, top_p=top_p, seed=1)
        assert {drawn.pick(shares.log())[0] for _ in range(400)} == allowed


def test_penalties_change_the_choice_and_not_the_logprobs() -> None:
    """Frequency and presence count the answer, repetition the prompt too; scores stay plain."""
    plain = torch.log_softmax(LOGITS, 0)
    counted = sampler(temperature=0.0, frequency_penalty=0.4, presence_penalty=0.3, top_logprobs=0)
    picked = [counted.pick(LOGITS) for _ in range(4)]
    assert [token for token, _, _ in picked] == [1, 3, 1, 3]  # 3, 3, then 2.3 and 2.3, then 1.9 under 2.3 …
    assert [logprob for _, logprob, _ in picked] == [float(plain[token]) for token, _, _ in picked]
    repeated = sampler([1, 3], temperature=0.0, repetition_penalty=2.0)
    assert repeated.pick(LOGITS)[0] == 2
    negative = sampler([0], temperature=0.0, repetition_penalty=2.0)
    assert negative.pick(torch.tensor([-1.0, -1.5]))[0] == 1


def test_seeds_repeat_and_differ() -> None:
    """A seed is a sequence; two unseeded samplers have two."""
    flat = torch.zeros(1000)

    def drawn(**params: object) -> list[int]:
        one = sampler(temperature=1.0, **params)
        return [one.pick(flat)[0] for _ in range(8)]

    assert drawn(seed=3) == drawn(seed=3) != drawn(seed=4)
    assert drawn() != drawn()


def test_numbers_that_are_none_are_refused() -> None:
    """A NaN among the logits is an error, never a token."""
    with pytest.raises(ArithmeticError):
        sampler(temperature=0.0).pick(torch.tensor([0.0, float("nan")]))


def test_extreme_temperatures_stay_numbers() -> None:
    """Very cold is greedy, very hot is uniform; neither overflows."""
    assert sampler(temperature=1e-4, seed=0).pick(torch.tensor([0.0, 90.0]))[0] == 1
    hot = sampler(temperature=1e6, seed=0)
    assert {hot.pick(LOGITS)[0] for _ in range(200)} == set(range(5))


def test_prompt_scores_are_the_log_softmax_of_each_row() -> None:
    """Each target's log-probability and the best alternatives of its row."""
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([1, 8, 0, 4])
    for row, (logprob, top) in enumerate(prompt_scores(logits, targets, 2)):
        want = torch.log_softmax(logits[row], 0)
        assert logprob == pytest.approx(float(want[targets[row]]), abs=1e-6)
        assert [token for token, _ in top] == want.topk(2).indices.tolist()
