"""Finds the asked fact in a prompt without a key.

A question of the plain kind ("What is the X for Y?", "Y的X是什么？") is answered from the sentence that
says so. Else candidates are code-like tokens (KX-4410-T, 7F3A-91, 83921) that stand before the
question: the right one is that of the sentence which shares the rarest words with the question, the
others are distractors. A caller's patterns with the groups `key` and `value` come first: the right
value is the one whose key the question names.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bunny_probe.errors import UsageError
from bunny_probe.phantom.tokens import Chat
from bunny_probe.phantom.truth import NOTHING, Truth

__all__ = ["compile_patterns", "find_truth"]

_CODE = re.compile(
    r"(?<![\w-])(?:[A-Z]{2,}[0-9]*|[A-Z0-9]*[0-9][A-Z0-9]*)(?:-[A-Z0-9]+)+(?![\w-])"  # parts joined by -
    r"|(?<![\w.,-])(?=[A-Z]*[0-9])(?=[0-9]*[A-Z])[A-Z0-9]{4,}(?![\w-])"  # letters and digits together
    r"|(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])"  # a UUID
    r"|(?<![\w.,-])[0-9]{5,}(?![\w-]|[.,][0-9])",  # a long number
    re.ASCII,  # a CJK character beside a code is no part of it
)
_PLAIN_ENGLISH = re.compile(
    r"[Ww]hat (?:is|was) the (?P<what>[\w -]{2,40}?) (?P<link>for|of|in|at) (?P<key>[^?.\n]{2,60})\?"
)
_PLAIN_CHINESE = re.compile(r"(?P<key>[^\s，。？：]{2,20})的(?P<what>[^\s，。？的]{1,10})是(?:什么|多少)")
_BORDER = re.compile(r"[.!?。！？;；]\s|[。！？；]|\n")
_WORD = re.compile(r"[^\W\d_]{2,}|[0-9]+")
_CJK = re.compile(r"[\u3400-\u9fff]{2,}")
_WINDOW = 65_536  # characters scanned a call, so that no scan holds the interpreter for long
_OVERLAP = 512
_SENTENCE = 400  # characters looked at on each side of a candidate
_QUESTION = 800  # characters at the end of the last user message that may hold the question
_PARAGRAPHS = 3  # at the end, likewise
_SENTENCES = 4  # at the end, in which a question mark is looked for
_MOST = 20_000  # candidates considered
_COMMON = frozenset(
    {"the", "and", "for", "what", "which", "that", "with", "this", "from", "are", "was"}
    | {"your", "you", "only", "answer", "give", "reply"}
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    value: str
    sentence: str
    position: int


def compile_patterns(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Checks a pattern table. Raises UsageError for one without the groups `key` and `value`."""
    compiled = []
    for pattern in patterns:
        try:
            regex = re.compile(pattern)
        except re.error as error:
            raise UsageError(f"anchor pattern {pattern!r}: {error}") from None
        if not {"key", "value"} <= set(regex.groupindex):
            raise UsageError(f"anchor pattern {pattern!r} needs the groups (?P<key>…) and (?P<value>…)")
        compiled.append(regex)
    return tuple(compiled)


def find_truth(messages: Chat, patterns: Sequence[re.Pattern[str]] = ()) -> Truth:
    """The right answer and the distractors, or NOTHING where no candidate has a word of the question."""
    contents = [content for role, content in messages if role != "assistant" and content]
    if not contents:
        return NOTHING
    for question, before in _questions(contents[-1]):
        body = "\n".join([*contents[:-1], before])
        truth = (
            _by_patterns(body, question, patterns)
            or _by_patterns(body, question, _asked_for(question))
            or _by_words(body, question)
        )
        if truth.answers:
            return truth
    return NOTHING


def _questions(text: str) -> Iterator[tuple[str, str]]:
    """Where the question may begin, the shortest first: (question, what stands before it).

    Paragraphs at the end, for "…?\\n\\nAnswer:" takes two of them; or, in a prompt without paragraphs, the last
    sentence that asks with what follows it, or the last sentence.
    """
    trimmed = text.rstrip()
    start = len(trimmed)
    for _ in range(_PARAGRAPHS):
        start = trimmed.rfind("\n\n", 0, start)
        if start < 0 or len(trimmed) - start > _QUESTION:
            break
        yield trimmed[start + 2 :], trimmed[: start + 2]
    tail = max(0, len(trimmed) - _QUESTION)
    borders = [m.end() for m in _BORDER.finditer(trimmed, tail) if m.end() < len(trimmed)] or [tail]
    asking = [i for i in borders[-_SENTENCES:] if "?" in trimmed[i:] or "？" in trimmed[i:]]
    last = asking[-1] if asking else borders[-1]
    yield trimmed[last:], trimmed[:last]


def _asked_for(question: str) -> list[re.Pattern[str]]:
    """Patterns of the sentences that would answer "What is the X for Y?": "The X for … is …."."""
    patterns = []
    for m in _PLAIN_ENGLISH.finditer(question):
        opening = re.escape(f"he {m['what']} {m['link']} ")
        patterns.append(re.compile(opening + r"(?P<key>[^.\n]{2,60}?) is (?P<value>[^.\n]{1,60})\."))
    for m in _PLAIN_CHINESE.finditer(question):
        what = re.escape(m["what"])
        patterns.append(re.compile(rf"(?P<key>[^\s，。]{{2,20}}?)的{what}是\s*(?P<value>[^。\n]{{1,40}})。"))
    return patterns


def _by_patterns(body: str, question: str, patterns: Sequence[re.Pattern[str]]) -> Truth | None:
    found = [(m["key"], m["value"], m.start()) for p in patterns for m in p.finditer(body)]
    asked = [item for item in found if item[0] and item[0].casefold() in question.casefold()]
    if not asked:
        return None
    _, value, position = max(asked, key=lambda item: len(item[0]))  # the most telling key
    others = dict.fromkeys(other for _, other, _ in found if other != value)
    return Truth((value,), tuple(others), position / max(1, len(body)), source="found")


def _by_words(body: str, question: str) -> Truth:
    wanted = _words(question)
    in_question = {m.group() for m in _CODE.finditer(question)}
    candidates = [c for c in _candidates(body) if c.value not in in_question]
    if not candidates or not wanted:
        return NOTHING
    shared = [wanted & _words(candidate.sentence) for candidate in candidates]
    frequency = Counter(word for words in shared for word in words)
    total = len(candidates)

    def weight(words: set[str]) -> float:
        return sum(math.log(total / frequency[word]) + 1e-3 for word in words)

    best = max(range(total), key=lambda i: (weight(shared[i]), i))  # of equals the last one
    if not shared[best]:
        return NOTHING
    value = candidates[best].value
    others = dict.fromkeys(c.value for c in candidates if c.value != value)
    return Truth((value,), tuple(others), candidates[best].position / max(1, len(body)), source="found")


def _words(text: str) -> set[str]:
    """Words and numbers; of a Chinese run its pairs of characters, for there are no spaces to cut at."""
    found = (word.casefold() for word in _WORD.findall(text) if len(word) > 2 or word.isdigit())
    words = {word for word in found if word not in _COMMON}
    for run in _CJK.findall(text):
        words.update(run[i : i + 2] for i in range(len(run) - 1))
    return words


def _candidates(body: str) -> Iterator[_Candidate]:
    count = 0
    for start in range(0, len(body), _WINDOW):
        stop = start + _WINDOW
        for match in _CODE.finditer(body, start, min(len(body), stop + _OVERLAP)):
            if match.start() >= stop:
                break
            yield _Candidate(match.group(), _sentence(body, match.start(), match.end()), match.start())
            count += 1
            if count >= _MOST:
                return


def _sentence(body: str, start: int, end: int) -> str:
    low = max(0, start - _SENTENCE)
    for border in _BORDER.finditer(body, low, start):
        low = border.end()
    close = _BORDER.search(body, end, min(len(body), end + _SENTENCE))
    return body[low : close.start() if close else min(len(body), end + _SENTENCE)]
