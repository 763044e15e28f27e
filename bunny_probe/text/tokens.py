"""A counter from a tokenizer file: counts on this machine what the server will count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bunny_probe.errors import UsageError
from bunny_probe.records import Message
from bunny_probe.text.counting import BORDERS, learn_border

__all__ = ["ChatOverhead", "FileCounter"]

_BATCH = 2048  # texts encoded at a time: bounds memory, not speed


@dataclass(frozen=True, slots=True)
class ChatOverhead:
    """What a chat template adds, where the template itself is not at hand: measured, in tokens."""

    request: int  # once a request, generation prompt and default system message included
    message: int  # for each message


class FileCounter:
    """Counts with a `tokenizer.json` (Hugging Face's format) and a chat template.

    `source` is the file or the folder it lies in. The template is `template` (Jinja text), or the
    `chat_template.jinja` or `tokenizer_config.json` that lies beside the file; or `overhead` stands in
    for it. Raises `UsageError` when the file cannot be read or no template is found.
    """

    exact = True
    verify_below = 0

    def __init__(
        self,
        source: str | Path,
        *,
        template: str | None = None,
        overhead: ChatOverhead | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        from tokenizers import Tokenizer

        path = Path(source)
        path = path / "tokenizer.json" if path.is_dir() else path
        try:
            data = path.read_bytes()
            self._tokenizer = Tokenizer.from_buffer(data)
        except Exception as error:  # the Rust side raises bare Exception
            raise UsageError(f"{path} is not a tokenizer.json that can be read: {error}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        found, config = _beside(path.parent)
        template = found if template is None else template
        if template is None and overhead is None:
            raise UsageError(
                f"no chat template beside {path}: put chat_template.jinja there, "
                "or give the template or its measured overhead"
            )
        self._overhead = overhead
        self._template = None if template is None or overhead else _compiled(template)
        self._variables = {**config, **(variables or {})}
        identity = [template if overhead is None else [overhead.request, overhead.message], self._variables]
        digest = hashlib.sha256(data + json.dumps(identity, sort_keys=True, default=str).encode())
        self.fingerprint = f"file:{digest.hexdigest()[:16]}"

    @cached_property
    def _border(self) -> str | None:
        return learn_border(self.counts)

    @property
    def additive(self) -> bool:
        return self._border is not None

    @property
    def guard(self) -> int:
        return 1 if self._border in ("guarded", None) else 0

    def counts(self, texts: Sequence[str]) -> list[int]:
        found: list[int] = []
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            found += map(len, self._tokenizer.encode_batch_fast(batch, add_special_tokens=False))
        return found

    def following(self, texts: Sequence[str]) -> list[int]:
        lead = BORDERS[self._border or "guarded"]
        found = self.counts([lead + text for text in texts])
        if not self.guard:
            return found
        off = self.counts([lead.rstrip()])[0]
        return [count - off for count in found]

    def chat(self, messages: Sequence[Message]) -> int:
        if self._overhead is not None:
            contents = self.counts([message.content for message in messages])
            return self._overhead.request + self._overhead.message * len(messages) + sum(contents)
        return self.counts([self._rendered(messages)])[0]

    def _rendered(self, messages: Sequence[Message]) -> str:
        from jinja2.exceptions import TemplateError

        assert self._template is not None
        try:
            text: str = self._template.render(
                messages=[{"role": m.role, "content": m.content} for m in messages],
                add_generation_prompt=True,
                **self._variables,
            )
        except (TemplateError, TypeError) as error:
            raise UsageError(f"the chat template does not take these messages: {error}") from None
        return text


def _beside(folder: Path) -> tuple[str | None, dict[str, Any]]:
    """The chat template that lies in a folder and the special tokens it may read."""
    config: dict[str, Any] = {}
    file = folder / "tokenizer_config.json"
    if file.is_file():
        config = json.loads(file.read_text(encoding="utf-8"))
    tokens = {key: _content(config[key]) for key in ("bos_token", "eos_token", "unk_token") if config.get(key)}
    single = folder / "chat_template.jinja"
    if single.is_file():
        return single.read_text(encoding="utf-8"), tokens
    template = config.get("chat_template")
    if isinstance(template, list):  # several named ones; the default is the chat
        template = next((t["template"] for t in template if t.get("name") == "default"), None)
    return template, tokens


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, Mapping) else token)


def _compiled(template: str) -> Any:
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = raise_exception
    try:
        return environment.from_string(template)
    except TemplateError as error:
        raise UsageError(f"the chat template is not valid Jinja: {error}") from None
