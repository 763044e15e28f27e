"""No secret in any file: what children may see of the environment, and a last look at what they wrote."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from bunny_probe.targets import Target

__all__ = ["child_environment", "scrub", "secret_values"]

# Names that hold credentials by custom. Their values go to no child that was not told to use them.
_CUSTOM = re.compile(r"(?i)(?:^|_)(?:api_?key|key|token|secret|passw(?:or)?d|credentials?)$")
_SHORTEST = 8  # a shorter value would blot out ordinary words
_MASK = b"[redacted]"
_TEXT = {".ipynb", ".html", ".json", ".jsonl", ".txt", ".log", ".md", ".xml", ".csv"}


def named_variables(targets: Iterable[Target]) -> set[str]:
    """The variables that these endpoints read credentials from."""
    names: set[str] = set()
    for target in targets:
        names |= {target.key_env} if target.key_env else set()
        names |= {value[4:] for value in target.headers.values() if value.startswith("env:")}
    return names


def secret_values(targets: Iterable[Target], environment: Mapping[str, str] | None = None) -> list[bytes]:
    """Every credential that the environment holds, in every form a notebook or page would write it; the longest
    form first."""
    known = os.environ if environment is None else environment
    named = named_variables(targets)
    values = {
        value.strip()
        for name, value in known.items()
        if (name in named and value.strip()) or (_CUSTOM.search(name) and len(value.strip()) >= _SHORTEST)
    }
    forms = {form.encode("utf-8", "surrogateescape") for value in values for form in _forms(value)}
    return sorted(forms, key=lambda form: (-len(form), form))


def _forms(value: str) -> set[str]:
    """As it is, as Python, JSON and URLs write it, and each of those within HTML and within JSON."""
    written = {value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")}
    inside = {html.escape(form, quote=quoted) for form in written for quoted in (True, False)}
    return written | inside | {json.dumps(form, ensure_ascii=False)[1:-1] for form in written | inside}


def child_environment(
    targets: Iterable[Target], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment without credentials, but for those that the endpoints were told to use."""
    known = os.environ if environment is None else environment
    named = named_variables(targets)
    return {name: value for name, value in known.items() if name in named or not _CUSTOM.search(name)}


def scrub(folder: Path, secrets: Iterable[bytes]) -> list[str]:
    """Remove `secrets` from the text files below `folder`; gives the names of the files that held one."""
    forms = list(secrets)
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _TEXT or not path.is_file():
            continue
        content = path.read_bytes()
        clean = content
        for form in forms:
            clean = clean.replace(form, _MASK)
        if clean != content:
            path.write_bytes(clean)
            found.append(str(path.relative_to(folder)))
    return found
