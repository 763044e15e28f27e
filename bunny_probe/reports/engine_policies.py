"""What the engine's report is drawn from: the same probes under each memory policy, and the engine's bench.

The engine is met as any endpoint is, over HTTP, and as a command that prints JSON; it is never imported.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bunny_probe.bundled_engine import run_engine
from bunny_probe.campaign import Plan, load_plan
from bunny_probe.errors import UsageError
from bunny_probe.reports.position_recall import from_end
from bunny_probe.reports.study import Study, gather
from bunny_probe.targets import ENGINE, Target, reach, renderer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bench", "Truth", "open_bench"]

_POLICIES = ("full", "bsr", "top-blocks", "window")


@dataclass(frozen=True, slots=True)
class Truth:
    """What `--memory window` lets the last token of a prompt see, as its blocks say."""

    length: int  # tokens of the prompt
    block: int
    visible: int  # newest tokens of the prompt that are seen
    whole_to: int  # a fact with less filling text than this behind it is seen whole
    gone_from: int  # with more than this, nothing of it is seen
    first_block: int  # filling text behind a fact from which it stands in the first block, and is seen again


@dataclass(frozen=True, slots=True)
class Bench:
    """Everything that the report shows. `studies` by policy; the control, `full`, comes first where it is."""

    studies: dict[str, Study]
    costs: Mapping[str, Any] | None  # what `bunny-engine bench --json` wrote; None: the engine is not at hand
    truth: Truth | None  # None: no window policy was asked
    endpoint: str
    release: str
    why_not: str  # why there are no memory policies; "" where there are

    @property
    def whole(self) -> Study:
        """The first study: the control's, or the endpoint's own."""
        return next(iter(self.studies.values()))

    def frame(self) -> pd.DataFrame:
        """All observations, with their policy in the column `policy` and their distance as a depth."""
        import pandas as pd

        return pd.concat(
            [from_end(study).assign(policy=name) for name, study in self.studies.items()], ignore_index=True
        )


def open_bench(
    *,
    endpoint: str = ENGINE,
    model: str = "",
    suite: str = "memory-policies",
    policies: str = "full; bsr --bits 8; bsr --bits 4; top-blocks --top-blocks 1; window",
    block_size: int = 128,
    resident_blocks: int = 2,
    bench: str = "quick",
    run_path: str = "",
    release: str = "",
    key_env: str = "",
    dialect: str = "openai-chat",
    tokenizer: str = "",
    concurrency: int = 1,
) -> Bench:
    """Ask the suite under each policy, and run the engine's bench: `quick`, `whole`, or empty for none.

    `policies` are parted by semicolons and may have options of `bunny-engine serve`. What a run file or the
    bench's file beside it holds is not done again. Of another endpoint than the bundled engine the memory is
    not ours to set: the suite is asked once. Raises what a campaign raises, UsageError for a policy that the
    engine does not know.
    """
    plan = load_plan(suite)
    path = Path(run_path or f"reports/{plan.suite.name}.db")
    named = _named(policies)
    common = ("--block-size", str(block_size), "--resident-blocks", str(resident_blocks))
    if endpoint != ENGINE:
        target = Target(
            endpoint=endpoint,
            model=model,
            dialect=dialect,
            key_env=key_env or None,
            tokenizer=tokenizer or None,
        )
        study = gather(plan, target, path, release=release, concurrency=concurrency)
        why = "the endpoint is not the bundled engine, so its memory cannot be set from here"
        return Bench({study.endpoint: study}, None, None, study.endpoint, release, why)
    studies = {}
    for name, options in named.items():
        target = Target(model=model, engine_options=("--memory", *options, *common))
        studies[name] = gather(plan, target, path, release=release, concurrency=concurrency)
    truth = None
    windows = [options for options in named.values() if options[0] == "window"]
    if windows:
        target = Target(model=model, engine_options=("--memory", *windows[0], *common))
        truth = _truth(plan, target, path.with_suffix(".places.json"), block_size, resident_blocks)
    costs = _costs(model, bench, path.with_name(f"{path.stem}.bench-{bench}.json")) if bench else None
    asked = next(iter(studies.values())).frame["model"]
    return Bench(studies, costs, truth, str(asked.iloc[0]) if len(asked) else model, release, "")


def _named(policies: str) -> dict[str, list[str]]:
    """`bsr --bits 4` → its words, by a short name; the control first."""
    found: dict[str, list[str]] = {}
    for item in policies.split(";"):
        words = shlex.split(item)
        if not words:
            continue
        if words[0] not in _POLICIES:
            raise UsageError(f"policies: {words[0]!r} is none; choices: {', '.join(_POLICIES)}")
        found[_short(words)] = words
    if not found:
        raise UsageError(f"policies: name at least one of {', '.join(_POLICIES)}")
    return dict(sorted(found.items(), key=lambda item: item[1] != ["full"]))


def _short(words: list[str]) -> str:
    """`bsr --bits 4` as `bsr, 4 bits`, `top-blocks --top-blocks 1` as `top-blocks, 1`."""
    said, rest = [words[0]], words[1:]
    for flag, value in zip(rest[::2], [*rest[1::2], ""], strict=False):
        name = flag.removeprefix("--")
        said.append({"bits": f"{value} bits", "top-blocks": value}.get(name, f"{name} {value}".strip()))
    return ", ".join(said)


def _truth(plan: Plan, target: Target, kept: Path, block: int, resident: int) -> Truth | None:
    """Where the facts stand, counted by the engine; and from its blocks, what the prompt's last token sees."""
    probes = [trial.probe for trial in plan.trials if trial.probe.task == "from_end"]
    if not probes or probes[0].length_tokens is None:
        return None
    if kept.is_file():
        after, fact, frame = json.loads(kept.read_text("utf-8"))
    else:
        after, fact, frame = _places(probes[:: max(1, len(probes) // 4)], target)
        kept.write_text(json.dumps([after, fact, frame]), "utf-8")
    length = int(probes[0].length_tokens)
    start = max(block, ((length - 1) // block - resident + 1) * block)
    return Truth(
        length=length,
        block=block,
        visible=length - start,
        whole_to=length - start - after - frame - fact,
        gone_from=length - start - after,
        first_block=length - block - after,
    )


def _places(probes: list[Any], target: Target) -> tuple[int, int, int]:
    """Tokens between the filling text and the message's end, of the fact, and of the chat template."""
    from bunny_probe.endpoints.auth import auth_headers
    from bunny_probe.text import EndpointCounter

    after, fact, frame = [], [], []
    with reach(target) as spec, renderer(spec) as render:
        counter = EndpointCounter(spec.url, spec.model, auth=lambda: auth_headers(spec))
        try:
            for probe in probes:
                text = render(probe).messages[-1].content
                anchor = next(anchor for anchor in probe.anchors if anchor.asked)
                behind = text[text.rindex(anchor.text) + len(anchor.text) :]
                counts = counter.counts([behind, anchor.text, text])
                after.append(counts[0] - int(probe.variant.split()[0]))
                fact.append(counts[1])
                frame.append(probe.length_tokens - counts[2])
        finally:
            counter.close()
    return max(after), max(fact), max(frame)


def _costs(model: str, bench: str, kept: Path) -> Mapping[str, Any]:
    if bench not in ("quick", "whole"):
        raise UsageError(f"bench: {bench!r}; choices: quick, whole, or empty for none")
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        quick = ("--quick",) if bench == "quick" else ()
        run_engine("bench", *((model,) if model else ()), *quick, "--json", str(kept))
    found: Mapping[str, Any] = json.loads(kept.read_text("utf-8"))
    return found
