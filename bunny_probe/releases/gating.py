"""A gate over what the index holds: finds the runs, judges them, and tells people, CI and pull requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from bunny_probe.errors import UsageError
from bunny_probe.releases.index import Entry, Index
from bunny_probe.releases.judging import Check, Side, judge
from bunny_probe.releases.places import folder_name
from bunny_probe.releases.rules import Rules
from bunny_probe.releases.summary import RESULTS, load_results

__all__ = ["GateResult", "gate"]

_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "undecided": "❔ undecided", "skipped": "➖ skipped"}


@dataclass(frozen=True, slots=True)
class GateResult:
    release: str
    run: str  # the id
    folder: str  # of the run, below the index's
    rules: str  # the file
    checks: tuple[Check, ...]
    simulated: bool

    @property
    def blocking(self) -> list[Check]:
        return [check for check in self.checks if check.blocks]

    @property
    def passed(self) -> bool:
        return not self.blocking

    def sentence(self) -> str:
        counts = {name: sum(check.decision == name for check in self.checks) for name in _MARKS}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"Release {self.release} {'passes' if self.passed else 'does not pass'} {self.rules}: {told}."

    def reasons(self) -> list[str]:
        """Why the release must not go out, a line each."""
        return [f"{check.endpoint}: {check.rule}: {check.reason}" for check in self.blocking]

    def to_json(self) -> dict[str, Any]:
        return {
            "release": self.release,
            "run": self.run,
            "rules": self.rules,
            "passed": self.passed,
            "simulated": self.simulated,
            "sentence": self.sentence(),
            "checks": [check.to_json() for check in self.checks],
        }

    def markdown(self) -> str:
        """For a pull request: verdict first, what blocks, then every check."""
        lines = [f"## {'✅' if self.passed else '❌'} Space Bunny: {_cell(self.sentence())}", ""]
        if self.simulated:
            lines += ["> The phantom answered, a simulated endpoint: this is no result of a model.", ""]
        lines += [f"- **{_cell(reason)}**" for reason in self.reasons()]
        lines += ["", "| endpoint | rule | verdict | numbers |", "|---|---|---|---|"]
        order = ("fail", "undecided", "pass", "skipped")
        for check in sorted(self.checks, key=lambda check: order.index(check.decision)):
            mark = _MARKS[check.decision] + (
                " (strict)" if check.blocks and check.decision == "undecided" else ""
            )
            cells = (check.endpoint, check.rule, mark, check.reason)
            lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
        return "\n".join(lines) + "\n"

    def junit(self) -> str:
        """JUnit XML: a test case a check; undecided ones that do not block are skipped, with their reason."""
        failures = len(self.blocking)
        skips = sum(not check.blocks and check.decision in ("undecided", "skipped") for check in self.checks)
        counts = {
            "tests": str(len(self.checks)),
            "failures": str(failures),
            "skipped": str(skips),
            "errors": "0",
        }
        root = ElementTree.Element("testsuites", {"name": "bunny-probe gate", **counts})
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(f"release {self.release}"), **counts})
        for check in self.checks:
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": _xml(check.endpoint), "name": _xml(check.rule), "time": "0"}
            )
            if check.blocks:
                told = ElementTree.SubElement(
                    case, "failure", {"type": check.decision, "message": _xml(check.reason)}
                )
                told.text = _xml(f"{check.where}: {check.reason}")
            elif check.decision in ("undecided", "skipped"):
                ElementTree.SubElement(case, "skipped", {"message": _xml(f"{check.decision}: {check.reason}")})
            else:
                ElementTree.SubElement(case, "system-out").text = _xml(check.reason)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def gate(
    index: Index, release: str, rules: Rules, *, previous: str = "", baseline: str = "", seed: int = 0
) -> GateResult:
    """Judge the latest run of `release`. `previous`, `baseline`: releases, else the one before and the pinned.

    An endpoint that could not be asked blocks. Raises UsageError when there is no such run.
    """
    entry = index.of(release, among=frozenset({"done", "partial", "failed"}))
    named = {"baseline": baseline or index.baseline() or "", "previous": previous}
    given = {name: index.of(text) for name, text in named.items() if text}
    if given.get("previous", entry).id == entry.id and previous:
        raise UsageError(f"release {previous!r} cannot be held to itself")
    checks: list[Check] = []
    simulated = False
    for endpoint in entry.endpoints:
        current = _side(index, entry, endpoint)
        if current is None or endpoint in entry.failed:
            checks.append(_unasked(entry, endpoint, rules))
            continue
        references = {}
        for name in ("previous", "baseline"):
            reference = given.get(name) or (index.before(entry, endpoint) if name == "previous" else None)
            side = _side(index, reference, endpoint) if reference and reference.id != entry.id else None
            if side is not None:
                references[name] = side
        checks += judge(rules, endpoint, current, references, seed=seed)
        simulated |= entry.simulated
    return GateResult(entry.release, entry.id, entry.folder, rules.file, tuple(checks), simulated)


def _side(index: Index, entry: Entry, endpoint: str) -> Side | None:
    folder = index.root / entry.folder / folder_name(endpoint)
    return Side(entry.release, load_results(folder)) if (folder / RESULTS).exists() else None


def _unasked(entry: Entry, endpoint: str, rules: Rules) -> Check:
    return Check(
        endpoint, "answered_share", "the endpoint can be asked", rules.file, "fail", True,
        f"it could not be asked: {entry.reason or 'no results were kept'}", "", None, None, None, None, None, 0,
        0, False, None,
    )  # fmt: skip


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table and is no markup."""
    flat = " ".join(text.split())
    for character in "\\`*_[]<>|":
        flat = flat.replace(character, f"\\{character}" if character not in "<>" else f"&{_NAMED[character]};")
    return flat


_NAMED = {"<": "lt", ">": "gt"}


def _xml(text: str) -> str:
    """Without the control characters that XML 1.0 has no way to write."""
    return "".join(c for c in text if c in "\t\n\r" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE)
