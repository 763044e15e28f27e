"""What the right answer to a prompt is: from a key, or found in the prompt itself.

A key is JSON Lines, one object a prompt, as `bunny-probe export` writes: `messages` (or `prompt_hash`, or
`prompt`) and `expected` (a text, a list, or an object with `answers` and `distractors`). A prompt is matched by
the SHA-256 of the canonical JSON of its messages. The prompts themselves are not kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from bunny_probe.errors import UsageError
from bunny_probe.phantom.tokens import Chat

__all__ = ["NOTHING", "Key", "Truth", "prompt_hash"]

_FACTS = ("id", "family", "task", "variant", "language", "domain")


@dataclass(frozen=True, slots=True)
class Truth:
    """What is known of one prompt."""

    answers: tuple[str, ...] = ()  # accepted answers, or all wanted items when `every`
    distractors: tuple[str, ...] = ()  # values in the prompt that are wrong here
    depth: float | None = None
    scorer: str = ""  # what the answer is judged by, in the key's words
    params: Mapping[str, Any] = field(default_factory=dict)  # of that scorer
    good: str | None = None  # a whole answer that passes, when the key gives one
    bad: str | None = None  # a whole answer that breaks the format, when the key gives one
    facts: Mapping[str, str] = field(default_factory=dict)  # family, task, variant, …
    source: Literal["key", "found", "none"] = "none"

    @property
    def every(self) -> bool:
        """Whether all of `answers` are wanted, not any one of them."""
        return self.scorer in ("items", "entities") and bool(self.answers)

    @property
    def judged(self) -> bool:
        """Whether a right answer can be told from a wrong one."""
        return bool(self.answers) or self.good is not None or self.scorer in _WITHOUT_ANSWERS


_WITHOUT_ANSWERS = ("negation", "repetition", "conflict", "injection")
NOTHING = Truth()


def prompt_hash(messages: Chat) -> str:
    """SHA-256 (hex) over [{"content": …, "role": …}, …] with sorted keys, no spaces, characters as they are."""
    plain = [{"content": content, "role": role} for role, content in messages]
    try:
        text = orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # lone surrogates; the standard library takes them
        dumped = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        text = dumped.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()


class Key:
    """Right answers by prompt hash. Also matched by the user's texts alone, for dialects that drop roles."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, source: str = "key") -> None:
        self._by_hash: dict[str, Truth] = {}
        for number, row in enumerate(rows, start=1):
            try:
                self._add(row)
            except (TypeError, ValueError, KeyError) as error:
                raise UsageError(f"{source}, line {number}: {_reason(error)}") from None

    @classmethod
    def load(cls, path: str | Path) -> Key:
        """Reads a JSON Lines file. Raises UsageError that names the line."""
        source = Path(path)
        if not source.is_file():
            raise UsageError(f"no key file at {source}")
        with source.open("rb") as lines:
            return cls(_rows(lines, str(source)), source=str(source))

    def __len__(self) -> int:
        return len({id(truth) for truth in self._by_hash.values()})

    def find(self, messages: Chat, digest: str | None = None) -> Truth | None:
        found = self._by_hash.get(digest or prompt_hash(messages))
        return found or self._by_hash.get(_joined_hash([content for _, content in messages]))

    def _add(self, row: Mapping[str, Any]) -> None:
        truth = _truth(row)
        hashes: list[str] = []
        if row.get("messages") is not None:
            chat = _chat(row["messages"])
            hashes += [prompt_hash(chat), _joined_hash([content for _, content in chat])]
        elif isinstance(row.get("prompt"), str):
            hashes += [prompt_hash([("user", row["prompt"])]), _joined_hash([row["prompt"]])]
        elif isinstance(row.get("prompt_hash"), str):
            hashes.append(row["prompt_hash"])
        else:
            raise ValueError("needs messages, prompt or prompt_hash")
        for digest in hashes:
            self._by_hash[digest] = truth


def _rows(lines: Iterable[bytes], source: str) -> Iterable[Mapping[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise UsageError(f"{source}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise UsageError(f"{source}, line {number}: an object is wanted, not {type(row).__name__}")
        yield row


def _truth(row: Mapping[str, Any]) -> Truth:
    expected = row.get("expected", row.get("expectation", row.get("target")))
    if isinstance(expected, str):
        expected = {"answers": [expected]}
    elif isinstance(expected, Sequence):
        expected = {"answers": list(expected)}
    elif expected is None:
        expected = {"answers": row.get("answers", []), "distractors": row.get("distractors", [])}
    if not isinstance(expected, Mapping):
        raise TypeError("expected must be a text, a list or an object")
    depth = row.get("depth")
    if depth is not None and not isinstance(depth, int | float):
        raise TypeError("depth must be a number")
    return Truth(
        answers=_texts(expected.get("answers", ()), "answers"),
        distractors=_texts(expected.get("distractors", row.get("distractors", ())), "distractors"),
        depth=None if depth is None else float(depth),
        scorer=str(expected.get("scorer", row.get("scorer", ""))),
        params=_params(expected.get("params")),
        good=_optional_text(expected, "good"),
        bad=_optional_text(expected, "bad"),
        facts={name: str(row[name]) for name in _FACTS if row.get(name) is not None},
        source="key",
    )


def _params(value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError("expected.params must be an object")
    return value or {}


def _optional_text(expected: Mapping[str, Any], name: str) -> str | None:
    value = expected.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"expected.{name} must be a text")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of texts")
    return tuple(value)


def _chat(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError("messages must be a list")
    return [(str(message["role"]), str(message["content"])) for message in value]


def _joined_hash(contents: Sequence[str]) -> str:
    running = hashlib.sha256()
    for content in contents:
        running.update("".join(content.split()).encode("utf-8", "surrogatepass"))
    return "joined-" + running.hexdigest()


def _reason(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
