"""Where a release keeps what: folders whose names survive any release string, and who is asked.

papermill_runs/index.jsonl
papermill_runs/<release>/<utc>-<id>/release.json, environment.json
                                   /<endpoint>/run.db, results.parquet, summary.json
                                   /<endpoint>/<notebook>/params.json, <notebook>.ipynb, report.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from bunny_probe.errors import UsageError, unknown_choice
from bunny_probe.records import content_hash
from bunny_probe.targets import ENGINE, Target

__all__ = ["ROOT", "Asked", "asked_endpoints", "folder_name"]

ROOT = Path("papermill_runs")
_RESERVED = frozenset({"site", "sample", "index.jsonl", "readme.md"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def folder_name(text: str) -> str:
    """A folder's name for any text: `1.10` and `2024_01` as typed, what no file system likes as %XX.

    Different texts have different names, also where the file system folds case only on request.
    """
    if not text.strip():
        raise UsageError("a release needs a name, such as 1.10")
    name = quote(text, safe="+ @=()").replace("~", "%7E")
    if name.startswith((".", " ")) or name.lower() in _RESERVED:
        name = f"%{ord(name[0]):02X}{name[1:]}"
    if name.endswith((".", " ")):
        name = f"{name[:-1]}%{ord(name[-1]):02X}"
    return name if len(name) <= 100 else f"{name[:80]}-{content_hash(text)[:12]}"


@dataclass(frozen=True, slots=True)
class Asked:
    """An endpoint under the name that releases compare it by."""

    name: str
    target: Target

    def to_json(self) -> dict[str, Any]:
        """What identifies it; credentials by the names of their variables."""
        target = self.target
        return {
            "name": self.name,
            "endpoint": target.endpoint,
            "model": target.model,
            "dialect": target.dialect,
            "key_env": target.key_env or "",
            "headers": dict(target.headers),
            "tokenizer": target.tokenizer or "",
            "engine_options": list(target.engine_options),
        }


def asked_endpoints(
    endpoints: Sequence[str],
    *,
    models: Sequence[str] = (),
    key_envs: Sequence[str] = (),
    dialects: Sequence[str] = (),
    tokenizers: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    allow_insecure: bool = False,
    timeout: float | None = None,
) -> list[Asked]:
    """The endpoints of `NAME=URL`, `URL` or `engine`; the other options are one for all or `NAME=VALUE`.

    Without a name: "engine", else the model's name, else host and port. Raises UsageError for two endpoints
    of one name and for an option that names an endpoint that is not there.
    """
    parts = [_split_endpoint(text) for text in endpoints]
    model_of = _options("--model", models, parts)
    key_of = _options("--key-env", key_envs, parts)
    dialect_of = _options("--dialect", dialects, parts)
    tokenizer_of = _options("--tokenizer", tokenizers, parts)
    found = []
    for name, url in parts:
        model = model_of(name)
        found.append(
            Asked(
                name or _own_name(url, model),
                Target(
                    endpoint=url,
                    model=model,
                    dialect=dialect_of(name) or "openai-chat",
                    key_env=key_of(name) or None,
                    headers=headers or {},
                    tokenizer=tokenizer_of(name) or None,
                    allow_insecure=allow_insecure,
                    timeout=timeout,
                ),
            )
        )
    names = [folder_name(item.name) for item in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two endpoints are called {twice[0]!r}: tell them apart with --endpoint NAME=URL")
    return found


def _split_endpoint(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if equals and _NAME.fullmatch(name) and (url == ENGINE or "://" in url):
        return name, url
    return "", text


def _own_name(url: str, model: str) -> str:
    if url == ENGINE:
        return ENGINE
    return Path(model).name or urlsplit(url).netloc.rpartition("@")[2] or url


class _options:  # noqa: N801  a closure with a check at its birth
    """The value of an option for an endpoint: its own where one is named, else the one for all."""

    def __init__(self, option: str, values: Sequence[str], parts: Sequence[tuple[str, str]]) -> None:
        names = {name for name, _ in parts if name}
        self._for_all, self._own = "", {}
        for text in values:
            name, equals, value = text.partition("=")
            if equals and name in names:
                self._own[name] = value
            elif equals and len(values) > 1:
                raise UsageError(f"{option} {text!r}: {unknown_choice('endpoint', name, names)}")
            elif self._for_all:
                raise UsageError(f"{option} was given twice for every endpoint: write NAME=VALUE")
            else:
                self._for_all = text

    def __call__(self, name: str) -> str:
        return self._own.get(name, self._for_all)
