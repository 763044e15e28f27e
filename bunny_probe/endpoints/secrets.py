"""Keys: read from the environment when an endpoint is opened, and kept out of everything else."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import NoReturn
from urllib.parse import quote

from bunny_probe.errors import UsageError

__all__ = ["Redactor", "Secret", "read_secret"]

_MASK = "[redacted]"

# What a credential looks like when a server quotes one that we do not hold, or only a part of ours.
_LOOKS_SECRET = re.compile(
    r"(?i:bearer|basic)\s+[\w.~+/=-]{8,}"
    r"|\b(?:sk|pk|rk|gsk|hf|xai|AIza|nvapi)[-_][\w*.-]{6,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHORTEST = 8  # characters of what looks like one, at least


class Secret:
    """A credential that cannot be shown, pickled or formatted by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is never serialised")


def read_secret(variable: str, environment: Mapping[str, str] | None = None) -> Secret:
    """The credential in the environment variable named `variable`.

    White space around it (a pasted newline) is dropped.

    Raises:
        UsageError: `variable` is no name of a variable, such as a key pasted in its place; or it is unset or
            empty, or holds what no HTTP header can carry.
    """
    if not _VARIABLE.fullmatch(variable):  # unseen: it may be the key itself
        raise UsageError(
            "what was given as the name of the key's environment variable is not a name: export the key "
            "(export MY_KEY=…) and give MY_KEY"
        )
    value = (os.environ if environment is None else environment).get(variable, "").strip()
    if not value:
        raise UsageError(
            f"the environment variable {variable} is not set or empty: export it with the endpoint's key"
        )
    if any(not 0x21 <= ord(character) <= 0x7E for character in value):
        raise UsageError(f"the key in {variable} holds a space or a character that no key has: paste it anew")
    return Secret(value)


class Redactor:
    """Removes known credentials, and what looks like one, from any text that may be kept or shown."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        forms: set[str] = set()
        for secret in secrets:
            value = secret.reveal()
            forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1]}
        # Longest first, so that no form leaves the rest of a longer one behind.
        self._known = tuple(sorted(forms, key=len, reverse=True))

    @property
    def holds_any(self) -> bool:
        """Whether there is a credential to look for."""
        return bool(self._known)

    def holds_secret(self, text: str) -> bool:
        return any(form in text for form in self._known)

    def known(self, text: str) -> str:
        """`text` without our own credentials: for answers, where a look-alike may be the answer."""
        for form in self._known:
            text = text.replace(form, _MASK)
        return text

    def __call__(self, text: str) -> str:
        """`text` without our credentials and without look-alikes: for messages and evidence."""
        if len(text) < _SHORTEST and not self._known:
            return text
        return _LOOKS_SECRET.sub(_MASK, self.known(text))
