"""From a probe to a prompt of exactly the asked number of tokens.

The tokens of a prompt are those of its frame (system message, head, tail, chat template), of its filling
sentences and of what is planted between them. The frame is measured once by itself, around a stand-in
for the text; sentences and plants are counted once each; where counts add up over a space, their sum is
the prompt's count, so nothing is tokenised twice. Two borders are not spaces: where the head meets the
first word and where the last word meets the tail. There the few characters around the border are measured.

A counter whose counts do not add up takes the same path as an estimate; the finished prompt is then
measured whole and the error corrected until it is none.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bunny_probe.errors import LengthError
from bunny_probe.records import Filler, Message, Probe, Recipe, Rendered, content_hash
from bunny_probe.text.counting import Counter
from bunny_probe.text.fillers import source
from bunny_probe.text.landing import Document

__all__ = ["render"]

_DOCUMENTS = 2  # documents whose counts are kept for each counter
_KNOWN = 20_000  # short texts whose counts are kept for each counter
_SHORT = 600  # characters
_TRIES = 32
_SMALL = 64  # tokens of filling text below which a prompt is always measured whole


def render(probe: Probe, counter: Counter) -> Rendered:
    """The prompt of a probe, of exactly `probe.length_tokens` as `counter` counts.

    Pure in its result: the same probe and counter give the same bytes, whatever was rendered before and in
    whichever thread. Raises `LengthError` when the fixed parts are longer than that, when the filling text
    ends too early, or when the length of a prompt without filling text differs from the one it is labelled.
    """
    work = _Work(counter, _state(counter))
    if probe.recipe.filler is None:
        messages = _messages(probe.recipe, probe.recipe.head + probe.recipe.tail)
        tokens = work.chat(messages)
        if probe.length_tokens not in (None, tokens):
            raise LengthError(
                f"the prompt has {tokens:,} tokens and not {probe.length_tokens:,}, and nothing to fill"
            )
    elif probe.length_tokens is None:
        raise LengthError("a prompt with filling text needs a length")
    else:
        tokens = probe.length_tokens
        messages = _filled(probe, probe.recipe.filler, tokens, work)
    return Rendered(
        messages=messages,
        intended_tokens=tokens,
        prompt_hash=content_hash(messages, length=64),
        counter=counter.fingerprint,
        exact=counter.exact,
        tokenised=work.tokenised,
    )


# ── counting, each thing once ───────────────────────────────────────────────────────────────────────


@dataclass
class _State:
    """What is kept for a counter between renderings. Forgetting it changes no result."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    known: dict[tuple[str, str], int] = field(default_factory=dict)
    documents: OrderedDict[str, tuple[threading.Lock, Document]] = field(default_factory=OrderedDict)


_STATES: weakref.WeakKeyDictionary[Counter, _State] = weakref.WeakKeyDictionary()
_STATES_LOCK = threading.Lock()


def _state(counter: Counter) -> _State:
    with _STATES_LOCK:
        return _STATES.setdefault(counter, _State())


@dataclass
class _Work:
    """The counting done for one rendering."""

    counter: Counter
    state: _State
    tokenised: int = 0

    def chat(self, messages: Sequence[Message]) -> int:
        tokens = self.counter.chat(messages)
        self.tokenised += tokens
        return tokens

    def following(self, texts: Sequence[str]) -> list[int]:
        found = self.counter.following(texts)
        self.tokenised += sum(found) + self.counter.guard * len(texts)
        return found

    def known(self, kind: str, texts: Sequence[str]) -> list[int]:
        """Counts ("counts" or "following") of short texts, each counted once for a counter."""
        with self.state.lock:
            found = {text: self.state.known[kind, text] for text in texts if (kind, text) in self.state.known}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            counts = self.following(missing) if kind == "following" else self.counter.counts(missing)
            self.tokenised += sum(counts) if kind == "counts" else 0
            found.update(zip(missing, counts, strict=True))
            with self.state.lock:
                if len(self.state.known) > _KNOWN:
                    self.state.known.clear()
                self.state.known.update(((kind, t), found[t]) for t in missing if len(t) <= _SHORT)
        return [found[text] for text in texts]


# ── putting together ────────────────────────────────────────────────────────────────────────────────


def _messages(recipe: Recipe, content: str) -> tuple[Message, ...]:
    system = () if recipe.system is None else (Message("system", recipe.system),)
    return (*system, *recipe.turns, Message("user", content))


def _filled(probe: Probe, filler: Filler, length: int, work: _Work) -> tuple[Message, ...]:
    recipe, stream = probe.recipe, source(filler)
    closers = stream.closers
    counts = work.known("following", closers)
    planted = work.known("following", [insertion.text for insertion in recipe.insertions])
    # Two texts stand in for the document: one word alone would touch both the head and the tail.
    stand_in = closers[:2] if len(closers) > 1 else ("Here it is.", "It ends.")
    frame = work.chat(_messages(recipe, recipe.head + " ".join(stand_in) + recipe.tail))
    fixed = frame - sum(work.known("following", stand_in)) + sum(planted)
    spread = _longest_tail(probe, work) - work.known("counts", [recipe.tail])[0]
    plain = " " in recipe.head and " " in recipe.tail and length - fixed >= _SMALL
    measured = not work.counter.additive or not plain or length <= work.counter.verify_below
    with work.state.lock:
        name = content_hash(filler)
        lock, document = work.state.documents.setdefault(name, (threading.Lock(), Document(stream.blocks)))
        work.state.documents.move_to_end(name)
        while len(work.state.documents) > _DOCUMENTS:
            work.state.documents.popitem(last=False)
    correction = back = 0
    tried: set[tuple[int, tuple[int, ...]]] = set()
    for _ in range(_TRIES):
        room = length - fixed - correction
        if room < 0:
            raise LengthError(
                f"{length:,} tokens are fewer than the {length - room:,} of the prompt's fixed parts "
                "(question, instructions, planted texts, chat template)"
            )
        with lock:
            document.reach(room, work.following)
            kept, ending = document.land(room, counts, back)
            pieces = _placed(recipe, document, kept, [closers[i] for i in ending], room, max(room - spread, 0))
        content = recipe.head + " ".join(pieces) + recipe.tail
        messages = _messages(recipe, content)
        if measured:
            error = work.chat(messages) - length
            correction += error
            settled = error == 0
        else:
            seams = _seams(recipe, stand_in, pieces, work)
            settled, correction = seams == correction, seams
        if settled:
            return messages
        if (kept, ending) in tried:  # going round in a circle: try another composition
            back += 1
        tried.add((kept, ending))
    raise LengthError(
        f"no prompt of exactly {length:,} tokens was found in {_TRIES} tries: this tokenizer's counts do not "
        "add up at sentence borders; a slightly different length may work"
    )


def _longest_tail(probe: Probe, work: _Work) -> int:
    """Tokens of the longest question that this document may be asked.

    Probes that share a document differ in the key that they ask for. Anchors are placed as if the longest
    of these questions stood there, so that they stand in the same places whichever is asked.
    """
    tail = probe.recipe.tail
    asked = next((anchor.key for anchor in probe.anchors if anchor.asked), "")
    tails = [tail.replace(asked, anchor.key) for anchor in probe.anchors] if asked and asked in tail else []
    return max(work.known("counts", [*tails, tail]))


def _placed(
    recipe: Recipe, document: Document, kept: int, ending: list[str], room: int, nominal: int
) -> list[str]:
    """Sentences, closers and insertions in order; `nominal` tokens are what depths are fractions of."""
    sums = document.sums
    at: list[tuple[int, float, int]] = []  # (sentences before it, wanted tokens before it, order)
    for order, insertion in enumerate(recipe.insertions):
        if insertion.from_end is not None:
            target, last = float(max(room - insertion.from_end, 0)), insertion.from_end == 0
        else:
            depth = insertion.depth or 0.0
            target, last = depth * nominal, depth >= 1
        at.append((kept + 1 if last else _nearest(sums, target, kept), target, order))
    pieces: list[str] = []
    done = 0
    for border, _, order in sorted(at):
        pieces += document.sentences[done : min(border, kept)]
        if border > kept:
            pieces += ending
            ending = []
        done = max(done, min(border, kept))
        pieces.append(recipe.insertions[order].text)
    return [*pieces, *document.sentences[done:kept], *ending]


def _nearest(sums: Sequence[int], target: float, kept: int) -> int:
    """The border among the first `kept` sentences that is nearest to `target` tokens."""
    after = min(bisect_left(sums, target, 0, kept + 1), kept)
    if after and target - sums[after - 1] <= sums[after] - target:
        return after - 1
    return after


def _seams(recipe: Recipe, stand_in: Sequence[str], pieces: Sequence[str], work: _Work) -> int:
    """What the true first and last words cost at the head and the tail beyond what the stand-in cost."""
    before, behind = recipe.head.rpartition(" ")[2], recipe.tail.partition(" ")[0]
    first, last = pieces[0].partition(" ")[0], pieces[-1].rpartition(" ")[2]
    other_first, other_last = stand_in[0].partition(" ")[0], stand_in[-1].rpartition(" ")[2]
    return _swap(work, first, other_first, before=before) + _swap(work, last, other_last, behind=behind)


def _swap(work: _Work, mine: str, other: str, before: str = "", behind: str = "") -> int:
    """Tokens that a word costs between two texts beyond what it costs alone, against another word there."""
    if mine == other or not (before or behind):
        return 0
    texts = [before + mine + behind, mine, before + other + behind, other]
    inside, alone, other_inside, other_alone = work.known("following", texts)
    return (inside - alone) - (other_inside - other_alone)
