"""The library and the bundled engine together, over HTTP, as `bunny-probe diagnose` joins them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bunny_probe.bundled_engine import bundled_engine
from bunny_probe.campaign import load_plan, observe, score_run
from bunny_probe.runs import frame
from bunny_probe.targets import ENGINE, Target

pytestmark = pytest.mark.model


@pytest.fixture(scope="session")
def hasty_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2's own tokenizer and chat template on a random model of one narrow layer.

    Its answers are noise; what it counts is what SmolLM2's server counts, at a hundredth of the time.
    """
    import torch
    from bunny_engine.fetch import resolve
    from bunny_engine.tokenizer_gguf import from_gguf
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("hasty")
    tokenizer, facts = from_gguf(resolve("smollm2-135m-instruct").path)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_text(tokenizer, "utf-8")
    about = {**facts.variables, "chat_template": facts.chat_template}
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")
    return folder


def test_every_prompt_of_the_demo_has_its_length_to_the_token(hasty_model: Path, tmp_path: Path) -> None:
    """The server's usage.prompt_tokens is the probe's length; where that is natural, what rendering counted."""
    plan, run = load_plan("diagnose-quick"), tmp_path / "run.db"
    observe(plan, Target(endpoint=ENGINE, model=str(hasty_model)), run, mode="none", concurrency=4)
    rows = frame(run).set_index("probe_id")
    assert len(rows) == len(plan.trials)
    for trial in plan.trials:
        meant = trial.probe.length_tokens or rows.loc[trial.probe.id, "length_tokens"]
        assert rows.loc[trial.probe.id, "prompt_tokens"] == meant, trial.probe
    assert not rows["outcome"].isin({"prompt_truncated", "bad_request", "server_error", "malformed"}).any()
    assert score_run(run) == len(rows)


def test_diagnose_from_nothing_to_a_page(hasty_model: Path, suite_file: Path, tmp_path: Path) -> None:
    """One command: engine, run, notebook, HTML without code, scripts or foreign addresses."""
    arguments = ["--model", hasty_model, "--suite", suite_file, "--out", tmp_path / "out", "--release", "1.10"]
    done = subprocess.run(
        [sys.executable, "-m", "bunny_probe", "diagnose", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        timeout=115,
        env={**os.environ, "BUNNY_CANARY": "canary-5d0c2e"},
    )
    assert done.returncode == 0, done.stderr
    page = Path(json.loads(done.stdout)["report"]).read_text("utf-8")
    assert "release 1.10" in page
    assert "This part could not be computed" not in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert 'alt="Figure without a description"' not in page
    assert page.count("<img") == page.count("alt=")
    assert "canary-5d0c2e" not in page
    assert "open_study(" not in page  # the code stays in the notebook


def test_an_interrupted_diagnose_leaves_no_engine_behind(hasty_model: Path, tmp_path: Path) -> None:
    """Ctrl-C ends with 130, keeps what came, and the child is gone. It watches its parent, whose kill it
    survives as little (tests/engine/test_cli.py)."""
    out, said = tmp_path / "out", tmp_path / "said.txt"
    command = [sys.executable, "-m", "bunny_probe", "diagnose", "--model", str(hasty_model), "--out", str(out)]
    with said.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    deadline = time.monotonic() + 60
    while not (out / "run.db").exists() or not _some_came(out / "run.db"):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    (child,) = _children(process.pid)
    told = Path(f"/proc/{child}/cmdline").read_text().split("\0")
    assert told[told.index("--parent-pid") + 1] == str(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert "interrupted; what was gathered is kept" in said.read_text("utf-8")
    while _alive(child):
        assert time.monotonic() < deadline + 30, "the engine outlived its parent"
        time.sleep(0.1)
    assert len(frame(out / "run.db")) > 0


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A model that is not there is told in one line with the engine's own words."""
    from bunny_probe.errors import EndpointUnreachable

    with (
        pytest.raises(EndpointUnreachable, match=r"ended with status 2 at its start: .*nothing-here\.gguf"),
        bundled_engine(str(tmp_path / "nothing-here.gguf")),
    ):
        pass


def _some_came(run: Path) -> bool:
    from bunny_probe.errors import RunError
    from bunny_probe.runs import Store

    try:
        with Store(run, write=False) as store:
            return store.counts()["observations"] >= 2
    except RunError:
        return False


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
