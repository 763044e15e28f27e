"""The frame: observations of one or several runs as the one table that analysis reads.

Built in parts of a few thousand rows, the entropies of a part in one vectorised pass, so that memory is that of
the finished table and one part more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bunny_probe.columns import COLUMNS
from bunny_probe.errors import RunError
from bunny_probe.fits import token_entropy_bounds
from bunny_probe.outfile import check_outfile
from bunny_probe.records import Outcome
from bunny_probe.runs.reader import connect_for_reading
from bunny_probe.runs.store import Store
from bunny_probe.runs.traces import decode_trace, trace_numbers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["frame", "frame_parts", "to_parquet"]

_PART = 4096

_QUERY = """
SELECT probes.id AS probe_id, endpoints.name AS endpoint, endpoints.fingerprint AS endpoint_id, endpoints.model,
    attempts.reported_model, trials.repeat,
    probes.family, probes.task, probes.variant, probes.language, probes.domain,
    coalesce(probes.length_tokens, observations.intended_tokens) AS length_tokens, probes.depth, probes.seed,
    probes.cluster, decodings.id AS decoding_id,
    json_extract(decodings.content, '$.temperature') AS temperature,
    json_extract(decodings.content, '$.repetition_penalty') AS repetition_penalty,
    json_extract(decodings.content, '$.frequency_penalty') AS frequency_penalty,
    json_extract(decodings.content, '$.presence_penalty') AS presence_penalty,
    json_extract(decodings.content, '$.seed') AS decoding_seed,
    attempts.outcome, observations.attempts, attempts.text, attempts.stop_reason, attempts.evidence,
    probes.scorer, scores.value AS score, scores.label, probes.chance, scores.reason,
    attempts.prompt_tokens, attempts.completion_tokens, attempts.usage_source, attempts.reasoning_tokens,
    attempts.cached_tokens, attempts.cost,
    attempts.first_content / 1e9 AS ttft_s, attempts."end" / 1e9 AS latency_s,
    attempts.first_reasoning / 1e9 AS reasoning_ttft_s,
    (attempts.first_content - attempts.scheduled) / 1e9 AS ttft_scheduled_s,
    (attempts."end" - attempts.scheduled) / 1e9 AS latency_scheduled_s,
    CASE WHEN usage_source = 'usage' THEN completion_tokens - coalesce(reasoning_tokens, 0) END
        AS answer_tokens,
    attempts.first_content, attempts.last_content, attempts.valid AS timing_valid,
    attempts.client_lag / 1e9 AS client_lag_s, attempts.in_flight, attempts.started_at, attempts.trace
FROM observations
    JOIN trials ON trials.id = observations.trial_id
    JOIN attempts ON attempts.id = observations.attempt_id
    JOIN probes ON probes.id = trials.probe_id
    JOIN decodings ON decodings.id = trials.decoding_id
    JOIN endpoints ON endpoints.fingerprint = trials.endpoint
    LEFT JOIN scores ON scores.trial_id = trials.id AND scores.scorer = probes.scorer
ORDER BY trials.id
"""


def frame(*paths: str | Path) -> pd.DataFrame:
    """The observations of the runs at `paths`: exactly the columns of `COLUMNS`, in that order and type.

    Raises:
        RunError: a path is not a run.
    """
    import pandas as pd

    parts = [part for path in paths for part in frame_parts(path)]
    return pd.concat(parts, ignore_index=True) if parts else _typed({name: [] for name in COLUMNS})


def frame_parts(path: str | Path, rows: int = _PART) -> Iterator[pd.DataFrame]:
    """The frame of one run in parts of at most `rows` rows: for runs too large for memory."""
    Store(path, write=False).close()  # says what is wrong with a file that is not a run
    with closing(connect_for_reading(Path(path))) as db:
        cursor = db.execute(_QUERY)
        while found := cursor.fetchmany(rows):
            yield _part(found)


def _part(rows: list[sqlite3.Row]) -> pd.DataFrame:
    plain = [name for name in rows[0].keys() if name in COLUMNS]  # noqa: SIM118 (a Row iterates over values)
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in plain}
    columns["answered"] = [row["outcome"] == Outcome.ANSWERED for row in rows]
    columns["timing_valid"] = [None if value is None else bool(value) for value in columns["timing_valid"]]
    columns |= _trace_columns([row["trace"] for row in rows])
    columns |= _pace_columns(rows, columns.pop("chunks"))
    return _typed(columns)


def _pace_columns(rows: list[sqlite3.Row], chunks: Any) -> dict[str, Any]:
    """Time a token and tokens a chunk by the server's own count of tokens. NaN where it gave none."""
    tokens = np.array([row["answer_tokens"] for row in rows], dtype=float)
    first, last = (
        np.array([row[name] for row in rows], dtype=float) for name in ("first_content", "last_content")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            # A single arrival has brought all tokens: there is no time between them to be had.
            "tpot_s": np.where((tokens > 1) & (chunks > 1), (last - first) / 1e9 / (tokens - 1), np.nan),
            "tokens_per_chunk": np.where((tokens > 0) & (chunks > 0), tokens / chunks, np.nan),
        }


def _typed(columns: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: pd.array(columns[name], dtype=dtype) for name, (dtype, _) in COLUMNS.items()})


def _trace_columns(blobs: list[bytes | None]) -> dict[str, Any]:
    """The columns that come from token traces. NaN or None where a trace does not offer them."""
    size = len(blobs)
    names = ("gap_p50_s", "gap_max_s", "mean_logprob", "entropy_low", "entropy_high")
    columns: dict[str, Any] = {name: np.full(size, np.nan) for name in names}
    columns |= {name: np.full(size, np.nan) for name in ("first_entropy_low", "first_entropy_high")}
    columns["chunks"] = np.zeros(size)  # arrivals that brought content
    columns["tokens_traced"] = [None] * size
    columns["first_top"] = [None] * size
    rows: list[int] = []
    counts: list[np.ndarray[Any, Any]] = []
    values: list[np.ndarray[Any, Any]] = []
    for index, blob in enumerate(blobs):
        if blob is None:
            continue
        numbers = trace_numbers(blob)
        # Tokens of one chunk share their arrival: a gap lies between chunks.
        moments = np.unique(np.frombuffer(numbers.arrival, dtype=np.int64))
        columns["chunks"][index] = len(moments)
        if len(moments) > 1:
            gaps = np.diff(moments) / 1e9
            columns["gap_p50_s"][index] = np.median(gaps)
            columns["gap_max_s"][index] = gaps.max()
        # The end token is no token of the answer, and only some servers tell of it.
        shown = np.frombuffer(numbers.size, dtype=np.uint32) > 0
        logprob = np.frombuffer(numbers.logprob, dtype=np.float32)
        logprob = logprob[shown] if len(logprob) else logprob
        columns["tokens_traced"][index] = len(logprob) or None
        if len(logprob):
            columns["mean_logprob"][index] = logprob.mean(dtype=np.float64)
        if len(numbers.top_count) and shown.any():
            count = np.frombuffer(numbers.top_count, dtype=np.uint16)
            rows.append(index)
            counts.append(count[shown])
            values.append(np.frombuffer(numbers.top_logprob, dtype=np.float32)[np.repeat(shown, count)])
            columns["first_top"][index] = json.dumps(decode_trace(blob).top[0], ensure_ascii=False)
    if rows:
        _entropies(columns, rows, counts, values)
    return columns


def _entropies(
    columns: dict[str, Any],
    rows: list[int],
    counts: list[np.ndarray[Any, Any]],
    values: list[np.ndarray[Any, Any]],
) -> None:
    """Mean bounds an answer, and those of its first token, for all answers of a part at once."""
    count, value = np.concatenate(counts), np.concatenate(values)
    # Tokens × alternatives, short rows filled up with -inf, which means: not seen.
    padded = np.full((len(count), int(count.max(initial=0))), -np.inf)
    padded[np.arange(padded.shape[1]) < count[:, None]] = value
    tokens = np.array([len(item) for item in counts])
    first = np.concatenate(([0], np.cumsum(tokens)[:-1]))
    for name, bound in zip(("entropy_low", "entropy_high"), token_entropy_bounds(padded), strict=True):
        known = np.isfinite(bound)
        sums = np.add.reduceat(np.where(known, bound, 0.0), first)
        seen = np.add.reduceat(known.astype(float), first)
        columns[name][rows] = np.divide(sums, seen, out=np.full(len(rows), np.nan), where=seen > 0)
        columns[f"first_{name}"][rows] = bound[first]


def to_parquet(paths: Iterable[str | Path], target: str | Path) -> int:
    """Write the frame of the runs to a Parquet file, part by part; gives the number of rows.

    The file appears whole or not at all. Raises UsageError for a target that is one of the runs, or any run,
    or cannot be written; RunError for what is no run.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.Schema.from_pandas(_typed({name: [] for name in COLUMNS}), preserve_index=False)
    paths = list(paths)
    out = check_outfile(target, paths)
    unfinished, written = out.with_name(out.name + ".part"), 0
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for path in paths:
                for part in frame_parts(path):
                    writer.write_table(pa.Table.from_pandas(part, schema=schema, preserve_index=False))
                    written += len(part)
        unfinished.replace(out)
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return written
