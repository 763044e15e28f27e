"""Every notebook, executed once: on the phantom, and on the default model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import browser as open_browser
from pages import chromium
from playwright.sync_api import Browser

from bunny_probe.phantom import Phantom, preset
from bunny_probe.resources import resource_dir

NOTEBOOKS = sorted(path.stem for path in resource_dir("notebooks").glob("*.ipynb"))
CANARY = "sk-canary-b51f07c2aa94"
ON_THE_MODEL = ("diagnose", "engine_bsr", "position_recall")

SUITE = """
name = "few"
description = "Enough of each kind for every section to have something to say"
seed = 11

[[probe]]
family = "length"
task = "single"
lengths = [256, 512]
samples = 3

[[probe]]
family = "position"
task = "single"
lengths = [512]
depths = [0.0, 0.5, 1.0]
samples = 2
"""
POLICIES = """
name = "few-policies"
description = "Two facts on either side of what a small window keeps"
seed = 11

[[probe]]
family = "position"
task = "from_end"
lengths = [592]
samples = 2
params = { distances = [48, 304] }
"""


def release(runs: Path, name: str, *arguments: str) -> None:
    """`bunny-probe release`, as a user calls it, with a secret at hand that it must not write down."""
    done = subprocess.run(
        [sys.executable, "-m", "bunny_probe", "release", name, "--runs", str(runs), *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "COLUMNS": "200", "PROD_KEY": CANARY, "OTHER_API_TOKEN": CANARY},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.fixture(scope="session")
def on_the_phantom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases, the arena of two phantoms and then every notebook of one of them, and their site."""
    runs = tmp_path_factory.mktemp("phantom") / "runs"
    behaviours = [preset("lost-in-the-middle"), preset("forgetful")]
    with Phantom(behaviours, api_key=CANARY) as phantom:
        common = ("--profile", "quick", "--key-env", "PROD_KEY", "-e", f"a={phantom.url}")
        model = ("-m", "a=phantom-lost-in-the-middle")
        both = ("-e", f"b={phantom.url}", "-m", "b=phantom-forgetful", "--notebooks", "arena")
        release(runs, "2024_01", *common, *model, *both)
        release(runs, "1.10", *common, *model, "--notebooks", ",".join(NOTEBOOKS))
    subprocess.run(
        [sys.executable, "-m", "bunny_probe", "site", "--runs", str(runs)], check=True, capture_output=True
    )
    return runs


@pytest.fixture(scope="session")
def on_the_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release of the bundled engine with its default model, SmolLM2."""
    folder = tmp_path_factory.mktemp("model")
    suite, probes = folder / "few.toml", folder / "few-policies.toml"
    suite.write_text(SUITE, "utf-8")
    probes.write_text(POLICIES, "utf-8")
    few = ("--set", f"probes={probes}", "--set", "policies=full; bsr --bits 4; window", "--set", "bench=")
    asked = ("-e", "engine", "--suite", str(suite), "--notebooks", ",".join(ON_THE_MODEL), *few)
    release(folder / "runs", "smollm2", *asked)
    return folder / "runs"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("no chromium on this machine: `apt-get install chromium`")
    with open_browser() as running:
        yield running
