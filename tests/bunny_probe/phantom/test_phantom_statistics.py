"""The truth is really what is claimed: rates, entropies and latencies, counted over many answers.

Each bound is four standard errors wide or more, and every seed is fixed: a failure is a fault, not bad luck.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bunny_probe.phantom import Behaviour, Latency, Truth, WordTokenizer
from bunny_probe.phantom.ask import Ask
from bunny_probe.phantom.latency import plan_times
from bunny_probe.phantom.reply import Choice, Prompt, compose

ASK = Ask("chat", "m", (("user", "x"),), None, frozenset(), temperature=0.0)
TRUTH = Truth(("KX-4410-T",), ("ZB-9982-Q", "RR-1200-A"), depth=0.5, source="key")
WORDS = WordTokenizer()


def answer(
    behaviour: Behaviour, number: int, *, tokens: int = 1000, truth: Truth = TRUTH, count: int = 0, **ask: Any
) -> Choice:
    """The answer to the prompt of this number."""
    prompt = Prompt(f"prompt {number}", tokens, tokens, 0, truth, False)
    (choice,) = compose(replace(ASK, **ask), behaviour, prompt, WORDS, count=count, slow=False)
    return choice


def share(hits: int, n: int, wanted: float) -> bool:
    """Whether a count lies within four standard errors of the wanted share."""
    return abs(hits / n - wanted) <= 4 * math.sqrt(max(wanted * (1 - wanted), 1e-9) / n)


@pytest.mark.parametrize("length", [1_000, 40_000, 200_000])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_recall_and_wrong_anchors_come_at_their_stated_rates(length: int, temperature: float):
    """2,000 prompts of one length: each kind of answer has its share, and says what its kind is."""
    behaviour = Behaviour(
        recall="0.9 * exp(-L / 50000)",
        wrong_anchor="0.2 * min(1, L / 40000)",
        abstain=0.05,
        refusal=0.1,
        seed=3,
    )
    n = 2_000
    choices = [answer(behaviour, i, tokens=length, temperature=temperature) for i in range(n)]
    kinds = Counter(choice.kind for choice in choices)
    rates = behaviour.rates(L=length, T=temperature)
    assert share(kinds["refusal"], n, 0.1)
    assert share(kinds["hit"], n, 0.9 * rates.hit)
    assert share(kinds["wrong_anchor"], n, 0.9 * rates.wrong_anchor)
    assert share(kinds["abstain"], n, 0.9 * rates.abstain)
    assert share(kinds["miss"], n, 0.9 * rates.miss)
    for choice in choices:
        assert (choice.text == "KX-4410-T") == (choice.kind == "hit")
        assert (choice.text in TRUTH.distractors) == (choice.kind == "wrong_anchor")


def test_recall_follows_depth():
    """The depth of the key is the depth of the curve."""
    behaviour = Behaviour(recall="where(depth < 0.2, 1, 0)")
    for depth, text in ((0.1, "KX-4410-T"), (0.3, "")):
        said = answer(behaviour, 1, truth=replace(TRUTH, depth=depth)).text
        assert (said == "KX-4410-T") == bool(text)


def test_each_of_several_items_is_recalled_on_its_own():
    """The expected share of items is the recall, and their counts are binomial."""
    truth = Truth(("AA", "BB", "CC", "DD"), scorer="items", source="key")
    behaviour = Behaviour(recall=0.6)
    texts = [answer(behaviour, i, truth=truth).text for i in range(1500)]
    found = [sum(item in text for item in truth.answers) for text in texts]
    assert share(sum(found), 6000, 0.6)
    assert np.var(found) == pytest.approx(4 * 0.6 * 0.4, rel=0.15)


def test_broken_formats_come_at_their_rate_and_are_the_keys_own():
    """A key's bad example is what goes out when the format breaks."""
    truth = Truth(good='{"a": 1}', bad="a: 1", source="key")
    behaviour = Behaviour(format_break=0.3)
    texts = Counter(answer(behaviour, i, truth=truth).text for i in range(2000))
    assert share(texts["a: 1"], 2000, 0.3)
    assert texts["a: 1"] + texts['{"a": 1}'] == 2000


def test_repeats_agree_as_often_as_the_consistency_says():
    """A repeat copies the greedy answer with probability c, else it is drawn anew."""
    behaviour = Behaviour(recall=0.5, wrong_anchor=0.5, consistency=0.6)
    one = replace(TRUTH, distractors=("ZB-9982-Q",))
    same = 0
    for i in range(2000):
        greedy = answer(behaviour, i, truth=one).text
        same += answer(behaviour, i, truth=one, temperature=1.0, count=1).text == greedy
    assert share(same, 2000, 0.6 + 0.4 * 0.5)


def test_answers_hang_on_prompt_seed_and_sample_and_on_nothing_else():
    """Greedy and seeded answers repeat for ever; unseeded ones change with the count; n choices differ."""
    behaviour = Behaviour(recall=0.5)
    greedy = [answer(behaviour, i, count=i) for i in range(50)]
    assert greedy == [answer(behaviour, i, count=99) for i in range(50)]
    seeded = [answer(behaviour, 1, temperature=1.0, seed=5, count=i) for i in range(20)]
    assert len(set(seeded)) == 1
    free = {answer(behaviour, 1, temperature=1.0, count=i).text for i in range(20)}
    assert len(free) > 2
    other = [answer(replace(behaviour, seed=1), i) for i in range(50)]
    assert [c.text for c in other] != [c.text for c in greedy]
    prompt = Prompt("p", 1000, 1000, 0, TRUTH, False)
    many = compose(replace(ASK, temperature=1.0, n=20), behaviour, prompt, WORDS, count=0, slow=False)
    assert len({choice.text for choice in many}) > 2


@pytest.mark.parametrize("entropy", [0.05, 0.7, 3.0, 8.0])
def test_sampled_tokens_have_the_stated_entropy(entropy: float):
    """At T = 1 the mean of −log p over 4,000 tokens is the entropy, within four standard errors."""
    behaviour = Behaviour(entropy=entropy, free_tokens=40)
    choices = [answer(behaviour, i, truth=Truth(), temperature=1.0, seed=i, top=20) for i in range(100)]
    logprobs = np.array([token.logprob for choice in choices for token in choice.tokens])
    assert len(logprobs) == 4000
    assert abs(-logprobs.mean() - entropy) < 4 * logprobs.std() / math.sqrt(4000) + 1e-3


def test_entropy_follows_length_and_token():
    """The curve is that of the prompt's length; a greedy token is the likeliest of its distribution."""
    behaviour = Behaviour(entropy="0.2 + L / 10000 + 0.1 * token", vocabulary=1000, free_tokens=3)
    for length in (1_000, 30_000):
        tokens = answer(behaviour, 1, truth=Truth(), tokens=length, top=20).tokens
        for index, token in enumerate(tokens):
            p = np.exp([value for _, value in token.top])
            low, high = bounds(p, behaviour.vocabulary)
            assert low - 1e-9 <= 0.2 + length / 10000 + 0.1 * index <= high + 1e-9
            assert token.top[0] == (token.piece.text, token.logprob)


def bounds(p: np.ndarray, vocabulary: int) -> tuple[float, float]:
    """Entropy bounds from the likeliest tokens: the rest in as few tokens as can be, or spread evenly."""
    seen, rest = -(p * np.log(p)).sum(), max(0.0, 1 - p.sum())
    if rest < 1e-12:
        return seen, seen + 1e-9
    return seen - rest * math.log(min(rest, p[-1])), seen - rest * math.log(rest / (vocabulary - len(p)))


def test_alternatives_are_distinct_ordered_and_as_many_as_asked():
    """Their log-probabilities fall, and with a small vocabulary they add up to 1."""
    behaviour = Behaviour(entropy=1.2, vocabulary=8)
    for token in answer(behaviour, 1, temperature=1.0, top=20).tokens:
        values = [value for _, value in token.top]
        assert len(values) == 8
        assert values == sorted(values, reverse=True)
        assert math.fsum(map(math.exp, values)) == pytest.approx(1)
        assert (token.piece.text, token.logprob) in token.top


def times(law: Latency, i: int, **facts: Any) -> Any:
    usual = {"prompt_tokens": 1000, "cached_tokens": 0, "tokens": 20, "slow": False, "others": 0}
    return plan_times(law, **{**usual, **facts}, key=(i,))


@pytest.mark.parametrize("distribution", ["gamma", "lognormal", "normal", "uniform"])
def test_latencies_have_their_stated_mean_and_spread(distribution: str):
    """Time to first token and gaps over 2,000 answers, each with its coefficient of variation."""
    law = Latency(0.1, 1e-4, 2e-4, ttft_spread=0.3, gap=0.02, gap_spread=0.25, distribution=distribution)  # type: ignore[arg-type]
    plans = [times(law, i, cached_tokens=600) for i in range(2000)]
    ttft = np.array([plan.ttft for plan in plans])
    gaps = np.diff([plan.due for plan in plans]).ravel()
    mean = 0.1 + 1000 * 1e-4 + 400 * 2e-4
    assert ttft.mean() == pytest.approx(mean, rel=4 * 0.3 / math.sqrt(2000))
    assert gaps.mean() == pytest.approx(0.02, rel=4 * 0.25 / math.sqrt(gaps.size))
    assert ttft.std() / mean == pytest.approx(0.3, rel=0.12)
    assert gaps.std() / 0.02 == pytest.approx(0.25, rel=0.05)
    assert gaps.min() >= 0


def test_slow_requests_and_company_stretch_all_times():
    """Without spread the law is exact."""
    law = Latency(0.1, gap=0.01, slow_factor=3, contention=0.5)
    assert times(law, 0).due[:2] == pytest.approx((0.1, 0.11))
    assert times(law, 0, slow=True).due[:2] == pytest.approx((0.3, 0.33))
    assert times(law, 0, others=2).due[:2] == pytest.approx((0.2, 0.22))
