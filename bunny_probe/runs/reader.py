"""The reading half of a run: what was planned, asked, answered and scored, a few rows at a time."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bunny_probe.records import Attempt, Decoding, Observation, Outcome, Probe, Trial, from_json
from bunny_probe.runs.rows import attempt_from_row

__all__ = ["UNSETTLED", "Reader", "connect_for_reading", "decoding_id"]

# Outcomes that say nothing lasting about the probe: the next `run` asks again.
UNSETTLED = frozenset({item for item in Outcome if item.transient} | {Outcome.UNAUTHORISED, Outcome.NOT_FOUND})


def connect_for_reading(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=30)
    db.row_factory = sqlite3.Row
    return db


_IDS: dict[str, str] = {}
# Holds of a trial that the scorer named has not judged; "" stands for the probe's own scorer.
_UNSCORED = (
    "NOT EXISTS (SELECT 1 FROM scores WHERE scores.trial_id = trials.id "
    "AND scores.scorer = coalesce(nullif(?, ''), probes.scorer))"
)


def decoding_id(decoding: Decoding) -> str:
    """`decoding.id`, hashed once: a run asks for it at every attempt.

    By `repr`, because a temperature of 0 and one of 0.0 are equal and have different ids.
    """
    text = repr(decoding)
    known = _IDS.get(text)
    if known is None:
        known = _IDS[text] = decoding.id
    return known


class Reader:
    """What can be asked of a run, while it is written or after."""

    path: Path
    _db: sqlite3.Connection
    _mutex: threading.RLock

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._mutex:
            return self._db.execute(query, values).fetchall()

    def _stream(self, query: str, values: Sequence[Any] = ()) -> Iterator[sqlite3.Row]:
        """Rows of one moment in bounded memory, over a connection of its own: writing goes on meanwhile."""
        with closing(connect_for_reading(self.path)) as db:
            yield from db.execute(query, values)

    def meta(self, key: str | None = None) -> Any:
        """The value under `key` (None when there is none), or all of them as a dict."""
        rows = self._rows("SELECT key, value FROM meta WHERE ?1 IS NULL OR key = ?1", (key,))
        values = {row["key"]: json.loads(row["value"]) for row in rows}
        return values if key is None else values.get(key)

    def suites(self) -> dict[str, str]:
        """Name → TOML text of the suites that were run."""
        return {row["name"]: row["text"] for row in self._rows("SELECT name, text FROM suites ORDER BY name")}

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """Fingerprint → name, model and spec (without credentials) of the endpoints that were asked."""
        rows = self._rows("SELECT * FROM endpoints ORDER BY fingerprint")
        return {
            row["fingerprint"]: {"name": row["name"], "model": row["model"], "spec": json.loads(row["spec"])}
            for row in rows
        }

    def pending(
        self, trials: Iterable[Trial], endpoint: str, *, again: Collection[Outcome] = UNSETTLED
    ) -> list[Trial]:
        """Those of `trials` that are still to be asked, in order: never observed, or observed with an outcome
        in `again`. `endpoint` is a fingerprint."""
        rows = self._rows(
            "SELECT probe_id, decoding_id, repeat FROM observations "
            "JOIN trials ON trials.id = observations.trial_id JOIN attempts ON attempts.id = attempt_id "
            f"WHERE endpoint = ? AND outcome NOT IN ({', '.join('?' * len(again))})",
            (endpoint, *[outcome.value for outcome in again]),
        )
        settled = set(map(tuple, rows))
        return [t for t in trials if (t.probe.id, decoding_id(t.decoding), t.repeat) not in settled]

    def observations(self, *, without_scorer: str | None = None) -> Iterator[tuple[Probe, Observation]]:
        """All observations with their probes, in the order of planning, a few at a time.

        `without_scorer`: only those that this scorer has not judged; "" stands for the probe's own scorer.
        """
        unscored, values = ("", ()) if without_scorer is None else (f"WHERE {_UNSCORED}", (without_scorer,))
        rows = self._stream(
            "SELECT attempts.*, observations.attempts AS made, prompt_hash, intended_tokens, trials.repeat, "
            "trials.endpoint, decodings.content AS decoding, probes.content AS probe FROM observations "
            "JOIN trials ON trials.id = observations.trial_id JOIN attempts ON attempts.id = attempt_id "
            "JOIN probes ON probes.id = trials.probe_id JOIN decodings ON decodings.id = trials.decoding_id "
            f"{unscored} ORDER BY trials.id",
            values,
        )
        for row in rows:
            probe: Probe = from_json(Probe, json.loads(row["probe"]))
            yield (
                probe,
                Observation(
                    probe_id=probe.id,
                    endpoint=row["endpoint"],
                    decoding=from_json(Decoding, json.loads(row["decoding"])),
                    repeat=row["repeat"],
                    attempt=attempt_from_row(row),
                    attempts=row["made"],
                    prompt_hash=row["prompt_hash"],
                    intended_tokens=row["intended_tokens"],
                ),
            )

    def scores(self) -> Iterator[tuple[str, str, str, int, str, float | None]]:
        """(endpoint, probe id, decoding id, repeat, scorer, value) of every score kept, any scorer's."""
        yield from map(
            tuple,
            self._stream(
                "SELECT trials.endpoint, probe_id, decoding_id, repeat, scorer, value FROM scores "
                "JOIN trials ON trials.id = trial_id ORDER BY trials.id, scorer"
            ),
        )

    def attempts(self, probe_id: str, endpoint: str, decoding_id: str, repeat: int) -> list[Attempt]:
        """Every attempt of one trial, the first one first."""
        rows = self._rows(
            "SELECT attempts.* FROM attempts JOIN trials ON trials.id = trial_id "
            "WHERE probe_id = ? AND endpoint = ? AND decoding_id = ? AND repeat = ? ORDER BY number",
            (probe_id, endpoint, decoding_id, repeat),
        )
        return [attempt_from_row(row) for row in rows]

    def probes(self) -> Iterator[Probe]:
        """All probes that were planned."""
        for row in self._stream("SELECT content FROM probes ORDER BY id"):
            yield from_json(Probe, json.loads(row["content"]))

    def prompt_hashes(self) -> dict[str, set[str]]:
        """Probe id → the hashes of the prompts that were sent for it (one, unless tokenizers differed)."""
        sent: dict[str, set[str]] = {}
        for row in self._stream(
            "SELECT probe_id, prompt_hash FROM observations JOIN trials ON trials.id = observations.trial_id"
        ):
            sent.setdefault(row["probe_id"], set()).add(row["prompt_hash"])
        return sent

    def counts(self) -> dict[str, int]:
        """Denominators: trials planned, attempts made, observations, unasked, and one entry an outcome."""
        tables = ("trials", "attempts", "observations", "unasked")
        totals = {name: self._rows(f"SELECT count(*) FROM {name}")[0][0] for name in tables}
        by_outcome = self._rows(
            "SELECT outcome, count(*) FROM observations JOIN attempts ON attempts.id = attempt_id "
            "GROUP BY outcome"
        )
        return totals | {row[0]: row[1] for row in by_outcome}

    def unscored(self) -> int:
        """Observations that their probe's own scorer has not judged: an interrupt came before the scoring."""
        rows = self._rows(
            "SELECT count(*) FROM observations JOIN trials ON trials.id = trial_id "
            f"JOIN probes ON probes.id = trials.probe_id WHERE {_UNSCORED}",
            ("",),
        )
        return int(rows[0][0])

    def unasked(self) -> dict[str, str]:
        """Probe id → why its prompt could not be built."""
        rows = self._rows("SELECT probe_id, reason FROM unasked JOIN trials ON trials.id = trial_id")
        return {row["probe_id"]: row["reason"] for row in rows}
