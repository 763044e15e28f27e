"""Killed at any moment, a run goes on where it stopped."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from bunny_probe.phantom import Behaviour, Latency, Phantom
from bunny_probe.runs import Store

SCRIPT = Path(__file__).parents[2] / "support" / "campaign.py"


def start(phantom: Phantom, run: Path, count: int, concurrency: int) -> subprocess.Popen[str]:
    arguments = [phantom.url, phantom.model, str(run), str(count), str(concurrency)]
    child = subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    return child


def wait_for_answers(run: Path, count: int) -> None:
    while True:
        with Store(run, write=False) as store:
            if store.counts().get("answered", 0) >= count:
                return
        time.sleep(0.05)


def durable(run: Path) -> set[str]:
    with Store(run, write=False) as store:
        return {seen.prompt_hash for _, seen in store.observations()}


def test_sigkill_loses_nothing_and_asks_nothing_answered_again(tmp_path: Path) -> None:
    """After SIGKILLs at random moments all probes are answered, and none whose answer was on disk was asked
    again, by the phantom's own log."""
    run, rng = tmp_path / "run.db", random.Random(7)
    with Phantom(Behaviour(latency=Latency(base=0.03))) as phantom:
        kept: list[tuple[int, set[str]]] = []
        for _ in range(3):
            child = start(phantom, run, 100, 4)
            time.sleep(rng.uniform(0.0, 0.4))
            child.send_signal(signal.SIGKILL)
            child.communicate()
            kept.append((max((item.number for item in phantom.stats.log), default=-1), durable(run)))
        assert 0 < len(kept[-1][1]) < 100
        child = start(phantom, run, 100, 8)
        out, err = child.communicate()
        assert (child.returncode, out, err) == (0, "done\n", "")
        log = phantom.stats.log
    for number, answers in kept:
        asked_later = [item.prompt_hash for item in log if item.number > number + 4]
        assert not answers.intersection(asked_later)
    with Store(run, write=False) as store:
        assert store.counts()["answered"] == 100
        assert len({seen.prompt_hash for _, seen in store.observations()}) == 100


def test_an_interrupt_stops_cleanly(tmp_path: Path) -> None:
    """Ctrl-C ends the process with KeyboardInterrupt; what was finished is on disk and the lock is free."""
    run = tmp_path / "run.db"
    with Phantom(Behaviour(latency=Latency(base=0.05))) as phantom:
        child = start(phantom, run, 400, 2)
        wait_for_answers(run, 2)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate()
    assert "KeyboardInterrupt" in err
    assert "Task was destroyed" not in err
    with Store(run) as store:
        assert 2 <= store.counts()["answered"] < 400


def test_an_interrupt_in_a_notebook_stops_cleanly(tmp_path: Path) -> None:
    """With a loop already running, an interrupt cancels the work in its thread and comes back as itself."""
    code = (
        f"import sys, asyncio; sys.path.insert(0, {str(SCRIPT.parent)!r}); import campaign\n"
        "async def cell(): campaign.run_sync(lambda: campaign.main(*sys.argv[1:]))\n"
        "try: asyncio.run(cell())\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    run = tmp_path / "run.db"
    with Phantom(Behaviour(latency=Latency(base=0.05))) as phantom:
        arguments = [phantom.url, phantom.model, str(run), "400", "2"]
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        wait_for_answers(run, 2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert out.endswith("stopped\n"), err
    with Store(run) as store:
        assert 2 <= store.counts()["answered"] < 400
