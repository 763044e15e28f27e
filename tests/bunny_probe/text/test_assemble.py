"""Prompts of exact length: to the token, whatever the tokenizer, the language and the questions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bunny_probe.errors import LengthError
from bunny_probe.records import (
    Anchor,
    Expectation,
    Filler,
    Insertion,
    Message,
    Probe,
    Recipe,
    content_hash,
)
from bunny_probe.text import FileCounter, domains, filler, languages, render
from bunny_probe.text.fillers import FILLERS, Source

HEAD = "Read the document below. A question follows.\n\n"
TAIL = "\n\nQuestion: What is the code for Maple Harbor? Reply with the code only."


def probe(
    length: int | None,
    *,
    language: str = "en",
    domain: str = "contract",
    seed: int = 1,
    depths: tuple[float, ...] = (0.5,),
    head: str = HEAD,
    tail: str = TAIL,
    kind: str = "haystack",
    **recipe: object,
) -> Probe:
    texts = tuple(
        Insertion(f"The code for Maple Harbor is {i}7{i}31.", depth) for i, depth in enumerate(depths)
    )
    return Probe(
        family="length",
        task="single",
        recipe=Recipe(head, tail, Filler(kind, language, domain, seed), texts, **recipe),  # type: ignore[arg-type]
        expectation=Expectation("anchor"),
        length_tokens=length,
    )


CELLS = [(language, domain) for language in languages() for domain in domains(language)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    length=st.integers(600, 4000),
    cell=st.sampled_from(CELLS),
    seed=st.integers(0, 50),
    depths=st.lists(st.floats(0, 1), max_size=5).map(tuple),
    head=st.sampled_from([HEAD, "请阅读下面的文件， 然后回答。\n\n", "Text: ", "«", "", "A\nB\n"]),
    tail=st.sampled_from(
        [TAIL, "%s %d? {x} %%", "\n\n问题： 密码是什么？", " Now answer.", "?", "\n", "\n\n\tX y", ""]
    ),
    system=st.sampled_from([None, "You are brief."]),
)
def test_any_prompt_has_exactly_the_asked_tokens(
    counter: FileCounter,
    length: int,
    cell: tuple[str, str],
    seed: int,
    depths: tuple[float, ...],
    head: str,
    tail: str,
    system: str | None,
) -> None:
    """What was intended is what the tokenizer counts, whatever stands at the borders."""
    language, domain = cell
    asked = probe(
        length, language=language, domain=domain, seed=seed, depths=depths, head=head, tail=tail, system=system
    )
    rendered = render(asked, counter)
    assert counter.chat(rendered.messages) == rendered.intended_tokens == length


@pytest.mark.parametrize("length", [700, 2500])
def test_a_tokenizer_whose_counts_do_not_add_up_is_still_exact(stubborn: FileCounter, length: int) -> None:
    """Where adding fails, the prompt is measured whole and corrected, and the length is true all the same."""
    assert not stubborn.additive
    exact = 0
    for seed in range(6):
        rendered = render(probe(length, seed=seed, depths=(0.1, 0.9)), stubborn)
        exact += stubborn.chat(rendered.messages) == length
    assert exact == 6


def test_a_long_prompt_costs_one_tokenisation(counter: FileCounter) -> None:
    """At most 1.1 tokens are encoded for each token delivered."""
    rendered = render(probe(16_384, seed=77, depths=(0.0, 0.3, 1.0)), counter)
    assert rendered.tokenised <= 1.1 * 16_384


def test_questions_about_a_document_share_its_text(counter: FileCounter) -> None:
    """Asking for another anchor changes the question and at most the last sentences before it."""
    keys = ["Fern Bay", "Maple Harbor", "Copper Lake of the Long Winding Northern Shore"]
    texts = tuple(
        Insertion(f"The code for {key} is 4711{i}.", (0.1, 0.5, 0.8)[i]) for i, key in enumerate(keys)
    )
    contents = []
    for asked in keys:
        anchors = tuple(Anchor(key, "4711", "", 0.5, asked=key == asked) for key in keys)
        tail = f"\n\nQuestion: What is the code for {asked}?"
        one = Probe(
            "position",
            "single",
            Recipe(HEAD, tail, Filler("haystack", "en", "meeting", 3), texts),
            Expectation("anchor"),
            3000,
            anchors=anchors,
        )
        contents.append(render(one, counter).messages[-1].content)
    common = next(i for i, letters in enumerate(zip(*contents, strict=False)) if len(set(letters)) > 1)
    assert common > 0.93 * len(contents[0])
    assert all(text.text in contents[0][:common] for text in texts)


@pytest.mark.parametrize("depth", [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
def test_an_insertion_stands_at_its_depth_by_tokens(counter: FileCounter, depth: float) -> None:
    """The share of the filling tokens before an anchor is the asked depth, to within a sentence."""
    content = render(probe(4000, depths=(depth,)), counter).messages[-1].content
    body = content.removeprefix(HEAD).removesuffix(TAIL)
    before, planted, behind = body.partition("The code for Maple Harbor is 07031.")
    assert planted
    first, last = counter.counts([before, behind])
    assert first / (first + last) == pytest.approx(depth, abs=0.03)
    assert (depth == 0.0) == (before == "")
    assert (depth == 1.0) == (behind == "")


def test_neighbours_stand_in_the_order_of_their_depths(counter: FileCounter) -> None:
    """Where two insertions share a border, the smaller depth stands first, however they are listed."""
    content = render(probe(1200, depths=(0.5005, 0.5, 0.4995)), counter).messages[-1].content
    places = [content.index(f"is {i}7{i}31.") for i in range(3)]
    assert places == sorted(places, reverse=True)


@pytest.mark.parametrize("distance", [0, 100, 700])
def test_an_insertion_stands_at_its_distance_from_the_end(counter: FileCounter, distance: int) -> None:
    """`from_end` is the number of filling tokens behind the anchor, to within a sentence."""
    base = probe(3000)
    recipe = Recipe(HEAD, TAIL, base.recipe.filler, (Insertion("It is here.", from_end=distance),))
    asked = Probe("position", "from_end", recipe, Expectation("anchor"), 3000)
    content = render(asked, counter).messages[-1].content
    behind = content.partition("It is here.")[2].removesuffix(TAIL)
    assert counter.counts([behind])[0] == pytest.approx(distance, abs=60)


def test_the_same_probe_gives_the_same_bytes_in_any_order_and_thread(counter: FileCounter) -> None:
    """Nothing that was rendered before, and no other worker, changes a prompt."""
    asked = [probe(n, seed=s, depths=(0.2, 0.7)) for n in (900, 2400) for s in range(4)]
    alone = [render(one, counter).prompt_hash for one in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: render(one, counter).prompt_hash, asked * 3))
    assert together == alone * 3
    assert len(set(alone)) == len(asked)


def test_fixed_parts_longer_than_the_length_are_refused(counter: FileCounter) -> None:
    """A prompt that cannot be short enough is an error that gives both numbers."""
    with pytest.raises(LengthError, match=r"100 tokens are fewer than the [\d,]+ of the prompt's fixed parts"):
        render(probe(100, tail=TAIL * 20), counter)


def test_a_corpus_that_ends_is_an_error_and_never_a_short_prompt(counter: FileCounter) -> None:
    """When the filling text cannot fill the length, nothing is rendered."""

    @filler("short story")
    def _story(wanted: Filler) -> Source:
        return Source(iter([["It was a dark night.", "Nobody came."]]), ("The end.",))

    try:
        with pytest.raises(LengthError, match="the filling text ends after"):
            render(probe(2000, kind="short story"), counter)
    finally:
        del FILLERS["short story"]


def test_a_prompt_without_filler_keeps_its_natural_length(counter: FileCounter) -> None:
    """Without filling text the intended tokens are counted; another label is refused."""
    natural = Probe("stress", "x", Recipe("Say yes.", ""), Expectation("exact"), None)
    rendered = render(natural, counter)
    assert rendered.messages == (Message("user", "Say yes."),)
    assert rendered.intended_tokens == counter.chat(rendered.messages)
    with pytest.raises(LengthError, match="nothing to fill"):
        render(Probe("stress", "x", Recipe("Say yes.", ""), Expectation("exact"), 500), counter)


def test_turns_and_the_system_message_are_part_of_the_length(counter: FileCounter) -> None:
    """Fixed turns stand before the document and count."""
    turns = (Message("user", "Hello."), Message("assistant", "Hello, how can I help?"))
    rendered = render(probe(1200, system="Be brief.", turns=turns), counter)
    assert [m.role for m in rendered.messages] == ["system", "user", "assistant", "user"]
    assert counter.chat(rendered.messages) == 1200
    assert rendered.prompt_hash == content_hash(rendered.messages, length=64)
