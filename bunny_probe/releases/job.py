"""One notebook of a release, in a process and a folder of its own: `python -m bunny_probe.releases.job FOLDER`.

Reads FOLDER/params.json and FOLDER/job.json, writes the executed notebook, report.html, and at last the state
into job.json. Ends when its parent does: nobody would read what it still makes.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bunny_probe.errors import BunnyError

__all__ = ["JOB", "PARAMS", "REPORT", "read_json", "write_json"]

JOB, PARAMS, REPORT = "job.json", "params.json", "report.html"


def main(folder: Path) -> int:
    """0: done; 1: failed, and job.json says why."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    os.chdir(folder)  # parameters hold relative paths, so that a release can be moved
    job = read_json(Path(JOB))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bunny-kernel-") as own:
        os.environ["IPYTHONDIR"] = own  # no history file that two kernels would fight for, no profile
        error = _run(job)
    state = {
        "state": "failed" if error else "done",
        "error": error,
        "seconds": round(time.monotonic() - begun, 1),
    }
    del job["source"]  # where it lay on this machine is of no use elsewhere
    write_json(Path(JOB), {**job, **state})
    return 1 if error else 0


def _run(job: dict[str, Any]) -> str:
    """What went wrong; empty when nothing did."""
    from bunny_probe.reports.html import execute, write_html

    output, error = Path(f"{job['notebook']}.ipynb"), ""
    try:
        execute(Path(job["source"]), output, read_json(Path(PARAMS)), cell_timeout=job["cell_timeout"])
    except BunnyError as failure:
        error = str(failure)
    except Exception as failure:  # a kernel that dies or does not come up
        error = f"{type(failure).__name__}: {failure}"
    if output.exists():
        _tidy(output, f"{job['notebook']}.ipynb")
        try:
            write_html(output, Path(REPORT), title=job["title"])
        except Exception as failure:
            error = error or f"the report could not be written: {type(failure).__name__}: {failure}"
    return error


def _tidy(notebook: Path, name: str) -> None:
    """Papermill notes where things lay on this machine: of no use elsewhere. Pictures need half their bytes."""
    from bunny_probe.releases.shrink import shrink_pictures

    content = read_json(notebook)
    shrink_pictures(content)
    notes = content.get("metadata", {}).get("papermill", {})
    for key in ("input_path", "output_path"):
        if key in notes:
            notes[key] = name
    write_json(notebook, content)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(3)


def read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", "utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
