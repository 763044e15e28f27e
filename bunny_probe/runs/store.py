"""A run: one SQLite file that loses nothing.

Write-ahead log, full synchronisation: what `record` has returned from is on disk, and an attempt never lies in
two transactions. Attempts that finish together may share one (`group`): they would wait for the same disk.
One process writes (see `lock`), any number read meanwhile. Prompts are not in it: a probe's recipe is.
"""

from __future__ import annotations

import json
import platform
import sqlite3
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from bunny_probe.endpoints import EndpointSpec
from bunny_probe.errors import RunError
from bunny_probe.records import (
    Attempt,
    Observation,
    Probe,
    Rendered,
    Score,
    Trial,
    to_json,
)
from bunny_probe.runs.lock import WriterLock
from bunny_probe.runs.reader import Reader, connect_for_reading, decoding_id
from bunny_probe.runs.rows import ATTEMPT_COLUMNS, attempt_row
from bunny_probe.runs.schema import check_schema, create_schema

__all__ = ["Store"]

_QUOTED = ", ".join(f'"{name}"' for name in ATTEMPT_COLUMNS)
_THE_TRIAL = "endpoint = ? AND probe_id = ? AND decoding_id = ? AND repeat = ?"
_INSERT_ATTEMPT = (
    f"INSERT INTO attempts (trial_id, number, {_QUOTED}, in_flight) "
    "SELECT id, (SELECT coalesce(max(number), 0) + 1 "
    f"FROM attempts WHERE trial_id = trials.id), {', '.join('?' * len(ATTEMPT_COLUMNS))}, ? FROM trials "
    f"WHERE {_THE_TRIAL} RETURNING trial_id, number, id"
)
_INSERT_TRIAL = "INSERT OR IGNORE INTO trials (endpoint, probe_id, decoding_id, repeat) VALUES (?, ?, ?, ?)"
_TRIAL_ID = f"SELECT id FROM trials WHERE {_THE_TRIAL}"


class Store(Reader):
    """A run file, open. `write=True` holds the writer's lock, and makes the run where there is none yet, unless
    `create` is False.

    Raises:
        RunLocked: another process writes to it.
        RunError: it is not a run file, is missing (reading), or has another format.
    """

    def __init__(self, path: str | Path, *, write: bool = True, create: bool = True) -> None:
        self.path = Path(path)
        self._mutex = threading.RLock()
        self._lock: WriterLock | None = None
        if self.path.is_dir():
            raise RunError(f"{self.path} is a folder: name a run file in it")
        if not (write and create):
            _see_that_there_is_one(self.path)
        if write:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = WriterLock(self.path)
            except OSError as error:
                raise RunError(f"{self.path} cannot be written: {error.strerror or error}") from None
        try:
            self._db = _connect(self.path, write)
            self._any_unasked = bool(self._rows("SELECT 1 FROM unasked LIMIT 1"))
        except sqlite3.DatabaseError as error:
            self._release()
            raise RunError(f"{self.path} cannot be used as a run file: {error}") from None
        except RunError as error:
            self._release()
            raise RunError(f"{self.path}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._mutex:
            self._db.close()
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @contextmanager
    def group(self) -> Iterator[None]:
        """Everything recorded within is one transaction: on disk, all of it, when the group is left."""
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, on disk when the outermost one is left. Only for the writer."""
        if self._lock is None:
            raise RunError(f"{self.path} is open for reading only")
        with self._mutex:
            if self._db.in_transaction:  # part of a group
                yield self._db
                return
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise RunError(f"{self.path} cannot be written: {error}") from None
                raise

    # ── set-up ──────────────────────────────────────────────────────────────────────────────────────

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a JSON value under `key` (environment, timings, releases, …); replaces what was there."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value, allow_nan=False)))

    def note_client(self, told: dict[str, Any]) -> None:
        """Add to the list under "client" what one session of asking says of its own client."""
        self.set_meta("client", [*(self.meta("client") or []), told])

    def save_suite(self, name: str, text: str) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO suites VALUES (?, ?)", (name, text))

    def add_trials(self, trials: Iterable[Trial], spec: EndpointSpec) -> int:
        """Plan `trials` for the endpoint; those already planned stay as they are. Gives how many are new."""
        fingerprint = spec.fingerprint
        with self._transaction() as db:
            before = db.execute("SELECT count(*) FROM trials").fetchone()[0]
            db.execute(
                "INSERT OR IGNORE INTO endpoints VALUES (?, ?, ?, ?)",
                (fingerprint, spec.name, spec.model, json.dumps(to_json(spec))),
            )
            seen: set[str] = set()
            for trial in trials:
                probe, decoding = trial.probe, trial.decoding
                if probe.id not in seen:
                    seen.add(probe.id)
                    db.execute(
                        "INSERT OR IGNORE INTO probes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        _probe_row(probe),
                    )
                known_as = decoding_id(decoding)
                if known_as not in seen:
                    seen.add(known_as)
                    db.execute(
                        "INSERT OR IGNORE INTO decodings VALUES (?, ?)",
                        (known_as, _json(decoding)),
                    )
                db.execute(_INSERT_TRIAL, (fingerprint, probe.id, known_as, trial.repeat))
            return int(db.execute("SELECT count(*) FROM trials").fetchone()[0] - before)

    # ── asking ──────────────────────────────────────────────────────────────────────────────────────

    def record(
        self,
        trial: Trial,
        endpoint: str,
        attempt: Attempt,
        rendered: Rendered,
        *,
        counts: bool,
        in_flight: int | None = None,
    ) -> int:
        """Keep an attempt; durable on return. `counts`: it is the one that the observation is made of.
        `in_flight`: requests of the run that were under way when it was sent, itself included.

        Gives the number of attempts that the trial has now. A new observation drops the scores of an old one.
        """
        with self._transaction() as db:
            key = _key(trial, endpoint)
            made = db.execute(_INSERT_ATTEMPT, (*attempt_row(attempt), in_flight, *key)).fetchall()
            if not made:
                raise self._never_planned(trial)
            trial_id, number, attempt_id = made[0]
            if counts:
                if number > 1:
                    db.execute("DELETE FROM scores WHERE trial_id = ?", (trial_id,))
                db.execute(
                    "INSERT OR REPLACE INTO observations VALUES (?, ?, ?, ?, ?)",
                    (trial_id, attempt_id, number, rendered.prompt_hash, rendered.intended_tokens),
                )
                if self._any_unasked:
                    db.execute("DELETE FROM unasked WHERE trial_id = ?", (trial_id,))
            return int(number)

    def record_unasked(self, trial: Trial, endpoint: str, reason: str) -> None:
        """Note that a trial's prompt could not be built, so that it shows in the denominators."""
        self._any_unasked = True
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO unasked VALUES (?, ?)", (self._trial_id(trial, endpoint), reason)
            )

    def _trial_id(self, trial: Trial, endpoint: str) -> int:
        row = self._db.execute(_TRIAL_ID, _key(trial, endpoint)).fetchone()
        if row is None:
            raise self._never_planned(trial)
        return int(row[0])

    def _never_planned(self, trial: Trial) -> RunError:
        return RunError(
            f"{self.path}: the trial {trial.probe.id}/{trial.repeat} was never planned (add_trials)"
        )

    def save_scores(self, scored: Iterable[tuple[Observation, Score]]) -> None:
        """Keep scores, one a scorer and observation, in one transaction; a newer one replaces."""
        with self._transaction() as db:
            for observation, score in scored:
                key = (
                    observation.endpoint,
                    observation.probe_id,
                    decoding_id(observation.decoding),
                    observation.repeat,
                )
                trial_id = db.execute(_TRIAL_ID, key).fetchone()[0]
                details = json.dumps(to_json(score.details))
                db.execute(
                    "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?, ?)",
                    (trial_id, score.scorer, score.value, score.label, score.reason, details),
                )


def _see_that_there_is_one(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        why = "" if isinstance(error, FileNotFoundError) else f" ({error.strerror or error})"
        way_out = "`bunny-probe run SUITE --run FILE` makes one"
        raise RunError(f"there is no run file {path}{why}: {way_out}") from None
    if not size:
        raise RunError(
            f"{path} is empty (0 bytes), so that it holds no run: name another file, or make it one with "
            "`bunny-probe run SUITE --run FILE`"
        )


def _key(trial: Trial, endpoint: str) -> tuple[str, str, str, int]:
    return endpoint, trial.probe.id, decoding_id(trial.decoding), trial.repeat


def _connect(path: Path, write: bool) -> sqlite3.Connection:
    if not write:
        db = connect_for_reading(path)
    else:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        db.row_factory = sqlite3.Row
    try:
        if write:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA wal_autocheckpoint = 4000")  # pages; a run rewrites its last pages over and over
            db.execute("PRAGMA foreign_keys = ON")
            create_schema(db)
        check_schema(db)
        if write:
            created = {"at": time.time(), "python": sys.version.split()[0], "platform": platform.platform()}
            db.execute("INSERT OR IGNORE INTO meta VALUES ('created', ?)", (json.dumps(created),))
    except BaseException:
        db.close()
        raise
    return db


def _json(record: Any) -> str:
    try:
        return orjson.dumps(record).decode()
    except TypeError:  # an edge input may hold half a surrogate pair, which only escaped goes into SQLite
        return json.dumps(to_json(record))


def _probe_row(probe: Probe) -> tuple[Any, ...]:
    return (
        probe.id,
        probe.family,
        probe.task,
        probe.variant,
        probe.language,
        probe.domain,
        probe.length_tokens,
        probe.depth,
        probe.seed,
        probe.cluster,
        probe.expectation.scorer,
        probe.expectation.chance,
        _json(probe),
    )
