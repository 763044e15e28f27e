"""One notebook a process: what hangs is stopped, what cannot start is told, pictures keep what they show."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bunny_probe.releases.job import JOB, PARAMS, write_json
from bunny_probe.releases.shrink import shrink_pictures
from bunny_probe.releases.workers import Job, run_jobs


def job(folder: Path, name: str, source: Path, *, timeout: float = 60.0) -> Job:
    spec: dict[str, Any] = {"notebook": name, "source": str(source), "title": name, "cell_timeout": 30.0}
    own = folder / name
    own.mkdir()
    write_json(own / PARAMS, {})
    write_json(own / JOB, spec)
    return Job(name, own, folder / "run.db", (), timeout, 1, {}, spec)


def test_what_hangs_is_stopped_and_the_rest_go_on(tmp_path: Path) -> None:
    """Each job is told once, with its reason, in bounded time."""
    jobs = [
        job(tmp_path, "hangs", tmp_path / "none.ipynb", timeout=0.05),
        job(tmp_path, "lacks", tmp_path / "none.ipynb"),
    ]
    told: list[str] = []
    reasons = {item.name: why for item, why in run_jobs(jobs, 2, told.append)}
    assert "not done after 0 s: stopped" in reasons["hangs"]
    assert "no notebook at" in reasons["lacks"]
    assert len(told) == 2


def test_pictures_need_fewer_bytes_and_look_the_same() -> None:
    """A figure's colours stay within what no eye tells apart; what is no picture is left as it is."""
    ramp = np.zeros((120, 400, 3), dtype=np.uint8)
    ramp[:, :, 0] = np.linspace(0, 255, 400)
    ramp[40:80, :, 1] = 200
    noise = np.random.default_rng(0).integers(0, 3, ramp.shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(ramp + noise).save(buffer, "PNG")
    encoded = base64.b64encode(buffer.getvalue()).decode()
    output: dict[str, Any] = {
        "data": {
            "image/png": encoded,
            "text/html": [f'<img src="data:image/png;base64,{encoded}" alt="a">', "data:image/png;base64,AAAA"],
        }
    }
    shrink_pictures({"cells": [{"outputs": [output]}, {"source": "markdown"}]})
    small = output["data"]["image/png"]
    assert len(small) < len(encoded) / 2
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(small))).convert("RGB"), dtype=int)
    assert np.abs(shown - (ramp + noise)).mean() < 3
    assert small in output["data"]["text/html"]
    assert output["data"]["text/html"].endswith("data:image/png;base64,AAAA")
