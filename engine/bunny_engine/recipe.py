"""In how many bits each matrix is kept: a small table of name patterns, later lines before earlier ones.

native                          every matrix as the file has it, in the number type that is computed in
bf16 | int8 | int6 | int4       every matrix so
hybrid                          embed=int8,mlp=int4,attn=int6
int8,mlp=int4,layers.0.*=bf16   a table: names are groups (embed, head, attn, mlp) or patterns of names
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bunny_engine.errors import OptionError

__all__ = ["FORMS", "GROUPS", "PRESETS", "Recipe"]

FORMS = ("native", "half", "bf16", "int8", "int6", "int4")
GROUPS = {
    "embed": ("embed",),
    "head": ("head",),
    "attn": ("*.qkv", "*.out"),
    "mlp": ("*.gate_up", "*.down"),
}
PRESETS = {"hybrid": "embed=int8,head=int8,mlp=int4,attn=int6"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """`rules`: (pattern, form). Where none matches a matrix, it is native."""

    rules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Recipe:
        """Raises OptionError with the choices."""
        rules: list[tuple[str, str]] = []
        for part in PRESETS.get(text.strip(), text).split(","):
            name, equals, form = (piece.strip() for piece in part.partition("="))
            if not equals:
                name, form = "*", name
            if form not in FORMS or not name:
                raise OptionError(
                    f"--weights {text!r}: {part.strip()!r} is not understood. Choices: auto, "
                    f"{', '.join((*FORMS, *PRESETS))}, or a table such as 'int8,mlp=int4,layers.0.*=bf16' "
                    f"whose names are {', '.join(GROUPS)} or patterns of tensor names"
                )
            rules += [(pattern, form) for pattern in GROUPS.get(name, (name,))]
        return cls(tuple(rules))

    def forms(self, names: Iterable[str]) -> dict[str, str]:
        """The form of each matrix. Raises OptionError for a pattern that means none of them."""
        names = list(names)
        found = dict.fromkeys(names, "native")
        optional = {pattern for group in GROUPS.values() for pattern in group}  # a tied model has no head
        for pattern, form in self.rules:
            matched = [name for name in names if fnmatchcase(name, pattern)]
            if not matched and pattern not in optional:
                raise OptionError(f"--weights: {pattern!r} means none of the model's matrices: {_some(names)}")
            found |= dict.fromkeys(matched, form)
        return found

    @staticmethod
    def key(forms: dict[str, str]) -> str:
        """A name for what these forms make: the form itself where it is one, else a digest of the table."""
        different = set(forms.values())
        if len(different) == 1:
            return different.pop()
        table = "\n".join(f"{name} {form}" for name, form in sorted(forms.items()))
        return "mixed-" + hashlib.sha256(table.encode()).hexdigest()[:12]


def _some(names: list[str]) -> str:
    shown = [name for name in names if not name.startswith("layers.") or name.startswith("layers.0.")]
    return ", ".join(shown)
