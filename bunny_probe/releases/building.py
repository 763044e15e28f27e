"""Builds a release: ask each endpoint once, then render the notebooks side by side, and keep the index true.

index: running ─▶ endpoint by endpoint: run.db ─▶ results.parquet, summary.json
               ─▶ notebook by notebook, `jobs` at a time ─▶ report.html ─▶ index: done | partial | failed
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from bunny_probe.campaign import observe, score_run
from bunny_probe.endpoints.secrets import Redactor
from bunny_probe.errors import BunnyError, RunLocked, UsageError
from bunny_probe.records import content_hash
from bunny_probe.releases.environment import environment, reported_models
from bunny_probe.releases.hygiene import scrub, secret_values
from bunny_probe.releases.index import Entry, Index, State, process_identity, utc
from bunny_probe.releases.job import JOB, PARAMS, REPORT, read_json, write_json
from bunny_probe.releases.places import Asked, folder_name
from bunny_probe.releases.request import Request
from bunny_probe.releases.summary import RESULTS, SUMMARY, load_summary, summarise
from bunny_probe.releases.workers import Job, run_jobs
from bunny_probe.runs.lock import WriterLock

__all__ = ["RUN", "Built", "build"]

RUN = "run.db"
Status = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a release."""

    entry: Entry
    folder: Path
    resumed: bool  # an earlier run was gone on with
    reports: tuple[Path, ...]
    failures: tuple[tuple[str, str], ...]  # "endpoint/notebook" or "endpoint" → why
    unreached: bool = False  # no endpoint could be asked, for whatever reason: nothing was judged

    def to_json(self) -> dict[str, Any]:
        return {
            **self.entry.to_json(),
            "folder": str(self.folder),
            "resumed": self.resumed,
            "reports": [str(path) for path in self.reports],
            "failures": dict(self.failures),
        }


def build(request: Request, *, anew: bool = False, on_status: Status = lambda _: None) -> Built:
    """Run the release, or go on with a run of the same arguments that is not done; `anew`: begin another.

    A notebook that fails is kept with what it had shown, and the rest go on. Raises UsageError, before anything
    is asked, for a baseline, a key's variable or a tokenizer that is not there and for a place that cannot be
    written, and RunLocked where another process builds the same; an interrupt is noted in the index and raised
    again.
    """
    index = Index(request.root)
    entry, resumed = _entry(index, request, anew)
    baseline = _baseline(index, request, entry)
    folder = request.root / entry.folder
    if entry.state != "done":
        for asked in request.endpoints:
            asked.target.check()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror or error}") from None
    with _only_writer(folder):
        if entry.state == "done":
            on_status(f"release {request.release} is done in {folder}; nothing to ask and nothing to draw")
            return Built(entry, folder, True, tuple(_reports(request, folder)), ())
        entry = replace(entry, state="running", at=utc(), process=process_identity(), failed=(), reason="")
        index.append(entry)
        try:
            failures = _work(request, index, entry, baseline, folder, on_status)
        except BaseException as error:
            index.append(replace(entry, state="interrupted", at=utc(), reason=type(error).__name__))
            raise
        made = list(_reports(request, folder))
        places = [_at(folder, asked) for asked in request.endpoints]
        known = [load_summary(place) for place in places if (place / SUMMARY).exists()]
        state = "done" if not failures else "partial" if made or known else "failed"
        entry = replace(
            entry,
            state=state,  # type: ignore[arg-type]
            at=utc(),
            failed=tuple(sorted(failures)),
            reason="; ".join(f"{name}: {why}" for name, why in sorted(failures.items()))[:2000],
            simulated=any(told["simulated"] for told in known),
        )
        index.append(entry)
    told = tuple(sorted(failures.items()))
    unreached = all(asked.name in failures for asked in request.endpoints)
    return Built(entry, folder, resumed, tuple(made), told, unreached)


# ── which run ───────────────────────────────────────────────────────────────────────────────────────


def _entry(index: Index, request: Request, anew: bool) -> tuple[Entry, bool]:
    same = [
        entry
        for entry in index.entries()
        if entry.arguments == request.arguments and (index.root / entry.folder).is_dir()
    ]
    if same and not anew:
        if same[-1].state == "running":
            raise RunLocked(
                f"release {request.release} is being built by process {same[-1].process.split(':')[1]}: "
                "wait for it"
            )
        return same[-1], True
    moment = datetime.now(UTC)
    nonce = content_hash([request.arguments, utc(moment), os.getpid()])[:8]
    folder = f"{folder_name(request.release)}/{moment:%Y%m%dT%H%M%SZ}-{nonce}"
    return Entry(
        id=nonce,
        release=request.release,
        arguments=request.arguments,
        folder=folder,
        state="running",
        started=utc(moment),
        at=utc(moment),
        endpoints=tuple(asked.name for asked in request.endpoints),
        notebooks=tuple(notebook.name for notebook in request.notebooks),
    ), False


def _baseline(index: Index, request: Request, entry: Entry) -> Entry | None:
    """The run to hold this one to besides the one before. The pinned release, built again, has none."""
    if request.baseline:
        return index.of(request.baseline, besides=entry)
    pinned = index.baseline()
    if not pinned or index.of(pinned, among=frozenset(get_args(State))).release == entry.release:
        return None
    return index.of(pinned)


@contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    try:
        lock = WriterLock(folder / "release")
    except RunLocked:
        raise RunLocked(f"{folder} is being written by another process: wait for it or stop it") from None
    try:
        yield
    finally:
        lock.release()


# ── the work ────────────────────────────────────────────────────────────────────────────────────────


def _work(
    request: Request, index: Index, entry: Entry, baseline: Entry | None, folder: Path, on_status: Status
) -> dict[str, str]:
    """Endpoint or endpoint/notebook → why it failed."""
    secrets = secret_values(asked.target for asked in request.endpoints)
    write_json(folder / "release.json", {**request.to_json(), "id": entry.id, "started": entry.started})
    write_json(folder / "environment.json", environment())
    failures: dict[str, str] = {}
    redact = Redactor()
    for asked in request.endpoints:
        # One endpoint after the other, and no notebook meanwhile: their times are part of the results.
        try:
            _ask(request, asked, folder, on_status)
        except BunnyError as error:
            failures[asked.name] = redact(str(error))
            on_status(f"{asked.name}: {failures[asked.name]}")
    jobs = [
        _job(request, index, entry, baseline, asked, notebook.name, folder)
        for asked in request.endpoints
        if asked.name not in failures
        for notebook in request.notebooks
    ]
    pending = [job for job in jobs if not _finished(job.folder, job.spec["data"])]
    if len(pending) < len(jobs):
        on_status(f"{len(jobs) - len(pending)} of {len(jobs)} notebooks are done already")
    for job in pending:
        _prepare(job)
    for job, why in run_jobs(pending, request.jobs, on_status):
        leaked = scrub(job.folder, secrets)
        if leaked:
            why = why or f"a cell showed a credential; it was removed from {', '.join(leaked)}"
        if why:
            failures[job.name] = redact(why)
            told = read_json(job.folder / JOB)
            write_json(job.folder / JOB, {**told, "state": "failed", "error": failures[job.name]})
    scrub(folder, secrets)
    return failures


def _ask(request: Request, asked: Asked, folder: Path, on_status: Status) -> None:
    """Everything that is asked of one endpoint, into one run file; then its frame and its numbers."""
    place = _at(folder, asked)
    place.mkdir(parents=True, exist_ok=True)
    run_path = place / RUN
    fingerprint = ""
    for plan in request.plans:
        observed = observe(plan, asked.target, run_path, concurrency=request.concurrency, on_status=on_status)
        fingerprint = observed.fingerprint
    score_run(run_path)
    summarise(
        run_path,
        place,
        fingerprint=fingerprint,
        about={
            "release": request.release,
            "endpoint": asked.name,
            "suites": [plan.suite.name for plan in request.plans],
            "planned": sum(len(plan.trials) for plan in request.plans),
            "reported_models": reported_models(run_path),
        },
    )


def _job(
    request: Request, index: Index, entry: Entry, baseline: Entry | None, asked: Asked, name: str, folder: Path
) -> Job:
    notebook = next(item for item in request.notebooks if item.name == name)
    place = _at(folder, asked)
    own = place / name
    target = asked.target
    previous = index.before(entry, asked.name)
    if baseline is not None and asked.name not in baseline.endpoints:
        baseline = None
    others = [_at(folder, item) / RUN for item in request.endpoints if item.name != asked.name]
    offered: dict[str, Any] = {
        "endpoint": target.endpoint,
        "model": target.model,
        "suite": request.suite_for(notebook),
        "release": request.release,
        "run_path": os.path.relpath(place / RUN, own),
        "others": ",".join(os.path.relpath(path, own) for path in others if path.exists()),
        "key_env": target.key_env or "",
        "dialect": target.dialect,
        "tokenizer": target.tokenizer or "",
        "previous": previous.release if previous else "",
        "previous_path": _results(request.root, previous, asked, own),
        "baseline": baseline.release if baseline else "",
        "baseline_path": _results(request.root, baseline, asked, own),
        **request.settings,
    }
    return Job(
        name=f"{asked.name}/{name}",
        folder=own,
        settled=place / RUN,
        targets=(target,),
        timeout=request.notebook_timeout,
        threads=max(1, (os.cpu_count() or 2) // max(request.jobs, 1)),
        params={key: value for key, value in offered.items() if key in notebook.parameters},
        spec={
            "notebook": name,
            "source": str(notebook.path),
            "title": f"{name}: {asked.name}, release {request.release}",
            "cell_timeout": request.cell_timeout,
            "data": _data(place),
        },
    )


def _results(root: Path, entry: Entry | None, asked: Asked, own: Path) -> str:
    if entry is None:
        return ""
    return os.path.relpath(root / entry.folder / folder_name(asked.name) / RESULTS, own)


def _prepare(job: Job) -> None:
    if job.folder.exists():
        shutil.rmtree(job.folder)  # what a kill left behind, or a failure that is tried again
    job.folder.mkdir(parents=True)
    write_json(job.folder / PARAMS, job.params)
    write_json(job.folder / JOB, {**job.spec, "state": "running", "error": "", "seconds": None})


def _finished(folder: Path, data: str) -> bool:
    """Whether the report is there and was drawn from these data."""
    try:
        told = read_json(folder / JOB)
        return bool(told["state"] == "done" and told["data"] == data) and (folder / REPORT).exists()
    except (OSError, ValueError, KeyError):
        return False


def _data(place: Path) -> str:
    path = place / RESULTS
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def _at(folder: Path, asked: Asked) -> Path:
    return folder / folder_name(asked.name)


def _reports(request: Request, folder: Path) -> Iterator[Path]:
    for asked in request.endpoints:
        for notebook in request.notebooks:
            place = _at(folder, asked)
            if _finished(place / notebook.name, _data(place)):
                yield place / notebook.name / REPORT
