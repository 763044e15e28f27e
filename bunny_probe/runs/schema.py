"""The tables of a run file, and the check that a file is one."""

from __future__ import annotations

import sqlite3

from bunny_probe.errors import RunError

__all__ = ["check_schema", "create_schema"]

APPLICATION_ID = 0x42554E59  # "BUNY"
VERSION = 2

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE suites (name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE endpoints (
    fingerprint TEXT PRIMARY KEY, name TEXT NOT NULL, model TEXT NOT NULL, spec TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE decodings (id TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE probes (
    id TEXT PRIMARY KEY, family TEXT NOT NULL, task TEXT NOT NULL, variant TEXT NOT NULL,
    language TEXT NOT NULL, domain TEXT NOT NULL, length_tokens INTEGER, depth REAL, seed INTEGER NOT NULL,
    cluster TEXT NOT NULL, scorer TEXT NOT NULL, chance REAL NOT NULL,
    content TEXT NOT NULL            -- the whole probe as JSON: a recipe, never a prompt
) WITHOUT ROWID;
CREATE TABLE trials (
    id INTEGER PRIMARY KEY, endpoint TEXT NOT NULL REFERENCES endpoints,
    probe_id TEXT NOT NULL REFERENCES probes, decoding_id TEXT NOT NULL REFERENCES decodings,
    repeat INTEGER NOT NULL,
    UNIQUE (endpoint, probe_id, decoding_id, repeat)
);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY, trial_id INTEGER NOT NULL REFERENCES trials, number INTEGER NOT NULL,
    outcome TEXT NOT NULL, evidence TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT NOT NULL,
    stop_reason TEXT, status INTEGER, error_code TEXT, retry_after REAL, reported_model TEXT,
    dropped_fields TEXT NOT NULL,
    prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER, reasoning_tokens INTEGER,
    cost REAL, usage_source TEXT NOT NULL,
    -- times in ns after sent
    started_at REAL, scheduled INTEGER, connected INTEGER, headers INTEGER, first_byte INTEGER,
    first_event INTEGER, first_reasoning INTEGER, first_content INTEGER, last_content INTEGER, "end" INTEGER,
    connection_reused INTEGER, client_lag INTEGER, valid INTEGER, includes_sdk INTEGER,
    trace BLOB,
    in_flight INTEGER,               -- requests of the run under way when it was sent, itself included
    UNIQUE (trial_id, number)
);
CREATE TABLE observations (
    trial_id INTEGER PRIMARY KEY REFERENCES trials, attempt_id INTEGER NOT NULL REFERENCES attempts,
    attempts INTEGER NOT NULL, prompt_hash TEXT NOT NULL, intended_tokens INTEGER
);
CREATE TABLE scores (
    trial_id INTEGER NOT NULL REFERENCES observations, scorer TEXT NOT NULL, value REAL, label TEXT NOT NULL,
    reason TEXT NOT NULL, details TEXT NOT NULL, PRIMARY KEY (trial_id, scorer)
) WITHOUT ROWID;
CREATE TABLE unasked (                -- trials whose prompt could not be built; asked again by the next run
    trial_id INTEGER PRIMARY KEY REFERENCES trials, reason TEXT NOT NULL
);
"""


def create_schema(connection: sqlite3.Connection) -> None:
    """Write the tables into an empty file; brings a run of the format before to this one."""
    if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
        if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
            connection.executescript(
                "BEGIN; ALTER TABLE attempts ADD COLUMN in_flight INTEGER; PRAGMA user_version = 2; COMMIT;"
            )
        return
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise RunError("the file is an SQLite database, but not a run of Space Bunny")
    connection.executescript(
        f"BEGIN; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
    )


def check_schema(connection: sqlite3.Connection) -> None:
    """Raises RunError when the file is not a run, or one of a version that this library does not read."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise RunError("the file is not a run of Space Bunny")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 1:
        raise RunError("the run has the format before this one: `bunny-probe score` brings it to this one")
    if version != VERSION:
        raise RunError(f"the run has format {version}, this version of space-bunny reads {VERSION}")
