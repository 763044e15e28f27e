"""Families of probes: suites in, trials out.

    suite ──check──▶ (every fault named) ──plan──▶ [Trial, Trial, …]

`plan` is a pure function of the suite: the same file gives the same ids on every machine.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace

from bunny_probe.errors import SuiteError, unknown_choice
from bunny_probe.families.base import REGISTRY, Task
from bunny_probe.records import Probe, Trial
from bunny_probe.suites import MAX_LENGTH, Entry, Suite

__all__ = ["TASKS", "check", "find_task", "plan", "probes"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

TASKS: dict[tuple[str, str], Task] = dict(sorted(REGISTRY.items()))


def find_task(entry: Entry) -> Task:
    """The task an entry names. Raises `SuiteError` with the choices."""
    families = sorted({family for family, _ in TASKS})
    if entry.family not in families:
        raise SuiteError(unknown_choice("family", entry.family, families), file=entry.where, key="family")
    if (entry.family, entry.task) not in TASKS:
        names = [name for family, name in TASKS if family == entry.family]
        message = unknown_choice(f"task of family {entry.family!r}", entry.task, names)
        raise SuiteError(message, file=entry.where, key="task")
    return TASKS[entry.family, entry.task]


def check(suite: Suite) -> None:
    """Raises `SuiteError` for whatever in the suite cannot be asked: name, coordinate, parameter, length."""
    for entry in suite.entries:
        task = find_task(entry)
        task.params(entry)
        for key in ("lengths", "depths", "domains"):
            if getattr(entry, key) and key not in task.uses:
                used = ", ".join(task.uses) or "none of the coordinates"
                message = f"{entry.family}/{entry.task} does not vary {key}; it uses {used}"
                raise SuiteError(message, file=entry.where, key=key)
        if task.languages is not None:
            for language in entry.languages:
                if language not in task.languages:
                    message = unknown_choice("language of this task", language, task.languages)
                    raise SuiteError(message, file=entry.where, key="languages")
        for length in entry.lengths:
            least = max(task.shortest, _fixed_parts(task, entry))
            if length < least:
                message = f"{length} tokens are too few for {entry.family}/{entry.task}"
                allowed = f"allowed: {least:,} to {MAX_LENGTH:,}"
                raise SuiteError(f"{message}; {allowed}", file=entry.where, key="lengths")


def _fixed_parts(task: Task, entry: Entry) -> int:
    """Tokens that the fixed texts of the entry's first probe have at the very least.

    A lower bound that holds for any tokenizer in use: a token for each word, and one for three characters
    of a script without spaces. The true count is the counter's to find.
    """
    probe = next(task.build(replace(entry, samples=1)), None)
    if probe is None or probe.recipe.filler is None:
        return 0
    recipe = probe.recipe
    texts = (recipe.head, recipe.tail, recipe.system or "", *(item.text for item in recipe.insertions))
    dense = sum(character > "\u2e7f" for text in texts for character in text)
    return sum(len(text.split()) for text in texts) + dense // 3


def probes(entry: Entry) -> Iterator[Probe]:
    """The probes of one entry."""
    return find_task(entry).build(entry)


def plan(suite: Suite) -> list[Trial]:
    """Every (probe, decoding, repeat) of a suite, in the order to ask them.

    Probes that share a document stand next to each other, so that a server's prefix cache helps.
    Raises `SuiteError` when two entries would ask the very same thing.
    """
    check(suite)
    trials: list[Trial] = []
    seen: dict[tuple[str, str], str] = {}
    for entry in suite.entries:
        task = find_task(entry)
        decodings = task.decodings(entry)
        for probe in task.build(entry):
            for decoding in decodings:
                drawn = replace(decoding, max_tokens=probe.max_tokens)
                key = (probe.id, drawn.id)
                if key in seen:
                    raise SuiteError(f"asks what {seen[key]} asks already; change its seed", file=entry.where)
                seen[key] = entry.where
                trials.extend(Trial(probe, drawn, repeat) for repeat in range(entry.repeats))
    return trials
