"""Comparisons, agreement, the search for the window, plans and audits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bunny_probe import fits
from bunny_probe.fits.adaptive import Tried
from bunny_probe.fits.edits import EDITS
from bunny_probe.fits.sameness import answer_features, permutation_mmd


def _run(hit: np.ndarray, text: list[str] | None = None, prefix: str = "p") -> pd.DataFrame:
    n = hit.size
    return pd.DataFrame(
        {
            "probe_id": [f"{prefix}{i}" for i in range(n)], "cluster": [f"{prefix}c{i}" for i in range(n)],
            "answered": True, "score": hit.astype(float), "text": text or ["same"] * n,
            "length_tokens": 1024 * (1 + np.arange(n) % 2), "latency_s": 1.0 + np.arange(n) / n,
        }
    )  # fmt: skip


@pytest.fixture
def hits() -> np.ndarray:
    return np.random.default_rng(0).random(400) < 0.85


def test_a_run_against_itself_is_the_same(hits):
    """Identical runs are the same within the margin, in every question, and no model change is claimed."""
    fit = fits.Compare()(_run(hits), _run(hits))
    assert fit.verdict == "same"
    assert fit.same_model is not False
    assert {q.verdict for q in fit.questions if q.kind == "score"} == {"same"}
    assert all(q.p == 1 for q in fit.questions if q.kind != "time")


def test_a_clear_loss_is_worse_and_a_clear_gain_better(hits):
    """The sign of the verdict follows the second run."""
    lost = hits & (np.arange(hits.size) % 5 > 0)
    assert fits.Compare()(_run(hits), _run(lost)).verdict == "worse"
    assert fits.Compare()(_run(lost), _run(hits)).verdict == "better"


def test_few_probes_leave_it_undecided_and_say_what_could_be_seen(hits):
    """With ten pairs a small difference is neither same nor worse, and the detectable one is told."""
    fit = fits.Compare(by=None)(_run(hits[:10]), _run(hits[10:20]))
    assert fit.verdict == "undecided"
    assert fit.questions[0].detectable > 0.2


def test_a_failed_probe_is_not_paired_with_a_miss(hits):
    """Probes that one run did not answer are left out and counted."""
    second = _run(hits)
    second.loc[:39, ["answered", "score"]] = [False, np.nan]
    fit = fits.Compare()(_run(hits), second)
    assert fit.pairs == 360
    assert fit.only_first == 40
    assert fit.questions[0].difference == 0


def test_other_answers_with_equal_scores_show_another_model(hits):
    """Answers worded otherwise are found although no score moved."""
    first = _run(hits, [f"The code is K-{i % 7}." for i in range(hits.size)])
    second = _run(hits, [f"Sure! It would be K-{i % 7}, I believe." for i in range(hits.size)])
    fit = fits.Compare()(first, second)
    assert fit.same_model is False
    assert fit.verdict == "same"
    assert fit.table().set_index("name").loc["answers", "verdict"] == "different"


def test_the_verdict_is_that_of_a_row_of_its_table(hits):
    """A loss at one length alone is "worse", and the sentence tells that length's numbers, not the whole's."""
    first = _run(hits)
    one = (first["length_tokens"] == 2048).to_numpy()
    second = _run(np.where(one, hits & (np.arange(hits.size) % 16 > 2), True))
    fit = fits.Compare(margin=0.02)(first, second)
    assert fit.verdict == "worse"
    assert fit.questions[0].verdict != "worse"
    assert fit.decisive.name == "score at length_tokens 2048"
    assert f"{fit.decisive.difference:+.3f}" in fit.sentence()
    assert "2048" in fit.sentence()
    for other in (fits.Compare()(first, first), fits.Compare()(second, first), fit):
        table = other.table().set_index("name")
        assert table.loc[other.decisive.name, "verdict"] == other.verdict


def test_runs_without_a_common_probe_are_compared_as_samples(hits):
    """Different probes are compared unpaired, and the result says so."""
    fit = fits.Compare()(_run(hits), _run(hits[::-1], prefix="q"))
    assert fit.status == "ok"
    assert "separate samples" in fit.reason
    assert fit.questions[0].low < 0 < fit.questions[0].high


def test_the_permutation_test_is_exact_under_exchange():
    """Over many null draws the p-values of the MMD test are no smaller than they say."""
    rng = np.random.default_rng(5)
    p = []
    for i in range(150):
        texts = [f"answer {v}" for v in rng.integers(0, 4, 40)]
        second = np.tile([False, True], 20)
        p.append(permutation_mmd(answer_features(texts), second, np.arange(40) // 2, rounds=99, seed=i)[1])
    assert np.mean(np.array(p) <= 0.05) <= 0.10
    assert np.mean(p) > 0.4


def test_agreement_of_repeats_is_counted_in_pairs():
    """Three answers of which two agree make one pair in three."""
    rows = [
        {
            "probe_id": f"p{i}",
            "cluster": f"p{i}",
            "decoding_id": "d",
            "answered": True,
            "score": 1.0,
            "text": text,
        }
        for i in range(30)
        for text in ("A  code", "a code", "other")
    ]
    fit = fits.Agreement()(pd.DataFrame(rows))
    assert fit.consistency.value == pytest.approx(1 / 3)
    assert fit.consistency.n == 30


def test_samples_with_a_seed_each_are_repeats_of_one_decoding():
    """Drawn with other seeds, and so under other decoding ids, samples of a probe are still compared."""
    rows = [
        {
            "probe_id": f"p{i}", "cluster": f"p{i}", "decoding_id": f"t{t}s{s}", "decoding_seed": s,
            "temperature": t, "answered": True, "score": 1.0, "text": "a" if t == 0.3 else f"{s}",
        }
        for i in range(20)
        for t in (0.3, 0.9)
        for s in range(3)
    ]  # fmt: skip
    fit = fits.Agreement()(pd.DataFrame(rows))
    assert fit.consistency.n == 40
    assert fit.consistency.value == pytest.approx(0.5)


def test_rows_that_name_no_probe_are_nobodys_repeat(hits):
    """A missing probe id pairs with nothing, in agreement as in comparisons."""
    frame = _run(hits).assign(decoding_id="d", temperature=0.0)
    blank = frame.assign(probe_id=[None] * 10 + list(frame["probe_id"][10:]))
    assert fits.Compare(rounds=20)(blank, blank).pairs == hits.size - 10
    again = fits.Agreement()(pd.concat([blank, blank]))
    assert again.consistency.n == hits.size - 10


def test_heat_and_penalty_are_paired_on_the_same_probes():
    """Resilience and sensitivity come from probes asked at both settings."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "probe_id": f"p{i}", "cluster": f"p{i}", "decoding_id": f"{t}/{r}", "answered": True, "text": "x",
            "temperature": t, "repetition_penalty": r,
            "score": float(rng.random() < 0.9 - 0.3 * t - 0.5 * (r - 1)),
        }
        for i in range(200)
        for t in (0.0, 1.0)
        for r in (1.0, 1.4)
    ]  # fmt: skip
    fit = fits.Agreement()(pd.DataFrame(rows))
    assert fit.temperature[0].low <= -0.3 <= fit.temperature[0].high
    assert fit.sensitivity.low <= 0.5 <= fit.sensitivity.high
    frame = fits.fingerprint({"model": fit})
    assert list(frame["axes"]) == ["penalty and temperature"]


def test_the_search_narrows_to_the_window_and_then_stops():
    """Fed with a model whose window is at 10,000 tokens the search ends near it and within its budget."""
    rng = np.random.default_rng(2)
    search = fits.WindowSearch(shortest=512, longest=65_536, width=1.2)
    tried: dict[int, list[float]] = {}
    for _ in range(300):
        step = search([Tried(length, h, int(n)) for length, (h, n) in tried.items()])
        if step.length is None:
            break
        entry = tried.setdefault(step.length, [0.0, 0])
        entry[0] += rng.binomial(step.repeats, 0.95 if step.length < 10_000 else 0.1)
        entry[1] += step.repeats
        assert str(f"{step.length:,}") in step.reason
    assert step.status == "censored"
    assert step.belief.window.low < 10_000 < step.belief.window.high
    assert step.belief.width <= 1.2
    assert step.tokens_spent < 512_000


def test_the_search_is_a_pure_function_of_what_was_tried():
    """The same trials give the same next length: a search can be stopped and taken up again."""
    tried = [Tried(512, 8, 8), Tried(16_384, 2, 8)]
    assert fits.WindowSearch()(tried) == fits.WindowSearch()(list(tried))


def test_the_search_never_exceeds_its_budget():
    """No length is proposed whose answers would cost more than what is left."""
    step = fits.WindowSearch(budget=10_000)([Tried(2048, 4, 4)])
    assert step.length is None or 2048 * 4 + step.length * step.repeats <= 10_000
    assert fits.WindowSearch(budget=100)().length is None


def test_a_search_without_sense_is_refused():
    """Bad bounds, and a width that the net cannot tell, are refused in words."""
    assert fits.WindowSearch(shortest=2000, longest=1000)().status == "refused"
    narrow = fits.WindowSearch(width=0.01)()
    assert narrow.status == "refused"
    assert "0.05 octaves" in narrow.reason


def test_the_search_reports_the_whole_gap_in_which_a_cliff_may_stand():
    """With answers that leave no doubt on both sides, the interval ends at lengths that could be asked."""
    search = fits.WindowSearch(shortest=1024, longest=16_384, width=4.0, candidates=5)
    step = search([Tried(1024, 400, 400), Tried(4096, 400, 400), Tried(8192, 0, 400)])
    assert (step.belief.window.low, step.belief.window.high) == (pytest.approx(4096), pytest.approx(8192))


def test_a_search_asked_for_a_narrow_window_ends():
    """Lengths to choose from stand close enough for the width asked for, whatever their number was set to."""
    search = fits.WindowSearch(shortest=1024, longest=16_384, width=0.2, candidates=5, repeats=40)
    tried: dict[int, Tried] = {}
    for _ in range(60):
        step = search(list(tried.values()))
        if step.length is None:
            break
        before = tried.get(step.length, Tried(step.length, 0.0, 0))
        hits = step.repeats if step.length < 5000 else 0
        tried[step.length] = Tried(step.length, before.hits + hits, before.trials + step.repeats)
    assert step.status == "censored"
    assert step.belief.width <= 0.2
    assert step.belief.window.low <= 5000 <= step.belief.window.high


def test_a_planned_share_reaches_its_width():
    """The planned number of documents gives Wilson's interval the asked half-width, and one fewer does not."""
    plan = fits.PlanForShare(half_width=0.1, share=0.5)()
    for n, enough in ((plan.documents, True), (plan.documents - 1, False)):
        low, high = fits.wilson(0.5 * n, n)
        assert ((high - low) / 2 <= 0.1) == enough


def test_alike_repeats_do_not_shrink_a_plan():
    """Repeats that always agree need as many documents as single answers."""
    single, repeated = fits.PlanForShare()(), fits.PlanForShare(trials=10, alike=1.0)()
    assert repeated.documents == single.documents
    assert fits.PlanForDifference(difference=2.0)().status == "refused"


def test_edits_find_a_scorer_that_counts_length():
    """A scorer that rewards length is moved by every added text; one that looks for the code is not."""
    answers = [f"The code is K-{i}. It was planted early (see above)." for i in range(30)]
    by_length = fits.ScorerEdits()(lambda i, text: min(len(text) / 100, 1.0), answers)
    by_code = fits.ScorerEdits()(lambda i, text: float(f"K-{i}." in text or f"K-{i} (" in text), answers)
    assert {s.edit for s in by_length.shifts if s.fooled} >= {"add citation", "add closing", "nest bracket"}
    assert not any(s.fooled for s in by_code.shifts)


def test_removing_undoes_adding():
    """Each removing edit takes back what the adding one put in."""
    text = "The contract is void. It was signed late."
    for add, remove in (
        ("add citation", "remove citations"),
        ("add closing", "remove closing"),
        ("nest bracket", "remove brackets"),
    ):
        assert EDITS[add](text) != text
        assert EDITS[remove](EDITS[add](text)) == text


def test_a_collapsed_scorer_is_told_from_a_collapsed_model():
    """A scorer that gives all answers one number is named when another tells them apart; else nobody is."""
    rng = np.random.default_rng(0)
    rows = []
    for model, mean in (("a", 0.8), ("b", 0.3)):
        for i in range(40):
            value = float(np.clip(mean + rng.normal(0, 0.2), 0, 1))
            rows += [
                {"probe_id": f"p{i}", "model": model, "scorer": "good", "score": value},
                {"probe_id": f"p{i}", "model": model, "scorer": "stuck", "score": 0.71 + rng.normal(0, 0.01)},
            ]
    frame = pd.DataFrame(rows)
    assert fits.ScorerSwaps()(frame).collapsed == ("stuck",)
    assert fits.ScorerSwaps()(frame[frame["scorer"] == "stuck"]).collapsed == ()
