"""Exports: the probes, and what came back, in formats that other teams' tools load. One file a format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bunny_probe.campaign import load_plan
from bunny_probe.errors import RunError, UsageError
from bunny_probe.exports.jsonl import jsonl
from bunny_probe.outfile import check_outfile
from bunny_probe.records import Probe, Rendered
from bunny_probe.targets import Target, reach, renderer

__all__ = ["FORMATS", "Line", "export_source"]


@dataclass(frozen=True, slots=True)
class Line:
    """A probe as it is sent, with one observation of it where there is one."""

    probe: Probe
    rendered: Rendered
    observed: dict[str, Any] | None = None  # a row of the frame as plain values


FORMATS: dict[str, Callable[[Iterable[Line]], Iterator[str]]] = {"jsonl": jsonl}


def export_source(
    source: str,
    export_format: str,
    out: Path | None,
    target: Target,
    *,
    with_observations: bool = False,
    on_status: Callable[[str], None] = lambda _: None,
) -> int:
    """Write a run's or a suite's probes to `out` (None: standard output) and give the number of lines.

    The file appears whole or not at all. Raises UsageError (also where the
    prompts would not be those that the run sent), SuiteError, RunError, EndpointError.
    """
    path = Path(source)
    if out is not None:
        check_outfile(out, [source])
    probes: Iterable[Probe]
    rows: dict[str, list[dict[str, Any]]] | None = None
    sent: dict[str, set[str]] = {}
    if path.suffix != ".toml" and path.is_file():
        probes, rows, sent = _of_run(path)
    else:
        if with_observations:
            raise UsageError(f"--with-observations needs a run file, and {source} is none")
        trials = load_plan(source).trials
        probes = {trial.probe.id: trial.probe for trial in trials}.values()
    with reach(target, on_status) as spec, renderer(spec, target.tokenizer) as render:
        lines = _lines(probes, _as_sent(render, sent, path), rows if with_observations else None)
        return _write(FORMATS[export_format](lines), out)


def _of_run(path: Path) -> tuple[list[Probe], dict[str, list[dict[str, Any]]], dict[str, set[str]]]:
    import pandas as pd

    from bunny_probe.runs import Store, frame

    with Store(path, write=False) as store:
        probes, sent = list(store.probes()), store.prompt_hashes()
    rows: dict[str, list[dict[str, Any]]] = {}
    columns = ["probe_id", "outcome", "text", "score", "prompt_tokens", "label", "endpoint", "model", "repeat"]
    for record in frame(path)[columns].to_dict("records"):
        plain = {str(key): None if pd.isna(value) else value for key, value in record.items()}
        rows.setdefault(str(plain["probe_id"]), []).append(plain)
    return probes, rows, sent


def _as_sent(
    render: Callable[[Probe], Rendered], sent: dict[str, set[str]], run: Path
) -> Callable[[Probe], Rendered]:
    """`render`, held to what the run sent: answers never stand beside a prompt that they do not answer."""

    def checked(probe: Probe) -> Rendered:
        rendered = render(probe)
        if probe.id in sent and rendered.prompt_hash not in sent[probe.id]:
            raise UsageError(
                f"with this tokenizer the prompts are not those that {run} sent: name the run's own endpoint "
                "with --endpoint and --model, or its tokenizer with --tokenizer"
            )
        return rendered

    return checked


def _lines(
    probes: Iterable[Probe],
    render: Callable[[Probe], Rendered],
    rows: dict[str, list[dict[str, Any]]] | None,
) -> Iterator[Line]:
    for probe in probes:
        rendered = render(probe)
        if rows is None:
            yield Line(probe, rendered)
        else:
            for row in rows.get(probe.id, []):
                yield Line(probe, rendered, row)


def _write(lines: Iterator[str], out: Path | None) -> int:
    count = 0
    if out is None:
        for line in lines:
            sys.stdout.write(line + "\n")
            count += 1
        return count
    part = out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as sink:
            for line in lines:
                sink.write(line + "\n")
                count += 1
        part.replace(out)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return count
