"""What a campaign may spend, and what a person is told before it is spent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest
from trials import trials

from bunny_probe.bounds import Bounds, precautions
from bunny_probe.cli.limits import bounds, rate_of
from bunny_probe.cli.options import target
from bunny_probe.columns import COLUMNS
from bunny_probe.endpoints import EndpointSpec, Price
from bunny_probe.endpoints.capabilities import Capabilities, known_capabilities, remember
from bunny_probe.endpoints.credit import KeyLimits
from bunny_probe.errors import UsageError
from bunny_probe.phantom import Behaviour, Phantom
from bunny_probe.phantom import Price as Charge
from bunny_probe.runs import frame

Cli = Callable[..., "CompletedProcess[str]"]
SPEC = EndpointSpec("https://models.test/v1", "thinker")


def test_limits_are_read_as_people_write_them() -> None:
    """Dollars, tokens and calls in several ways; what cannot be meant is refused with the way to say it."""
    told = bounds(["$5.50", "2M tokens", "200 calls"], "0.15/0.60", None, None, "30/min")
    assert told == Bounds(5.5, 2_000_000, 200, Price(0.15, 0.6), rate=0.5)
    assert bounds(["5 usd"]).dollars == 5
    assert bounds(["1,500 tokens"]).tokens == 1500
    assert bounds(price="provider").price == "provider"
    for wrong in ("5", "$", "-1 calls", "$1e9x", "calls", "1.5 calls", "5 euro"):
        with pytest.raises(UsageError, match="write"):
            bounds([wrong])
    for wrong in ("2", "a/b", "1/2/3", "-1/2", "nan/1"):
        with pytest.raises(UsageError):
            bounds(price=wrong)
    for wrong in ("0/s", "2/year", "x", "-1/s", "/s", "inf/s"):
        with pytest.raises(UsageError):
            rate_of(wrong)
    with pytest.raises(UsageError, match="already"):
        bounds(["$1", "$2"])
    with pytest.raises(UsageError, match="arrivals"):
        bounds(arrivals="poison")


def test_fields_of_the_request_are_json_and_none_of_our_own() -> None:
    """A provider can be pinned; what decides costs or shapes cannot be slipped in."""
    pinned = target("https://openrouter.ai/api/v1", "m", field=['provider={"order": ["DeepInfra"]}'])
    assert pinned.spec().options == {"provider": {"order": ["DeepInfra"]}}
    assert pinned.spec().fingerprint != target("https://openrouter.ai/api/v1", "m").spec().fingerprint
    with pytest.raises(UsageError, match="not JSON"):
        target(field=["a=b"])
    for own in ("max_tokens=5", "n=2", "stream=false"):
        with pytest.raises(UsageError, match="not free"):
            target("http://127.0.0.1:1/v1", "m", field=[own]).spec()


def test_a_reasoning_model_without_room_is_told_before_it_is_paid_for() -> None:
    """What doctor found decides: no word where it does not reason, or has room for it."""
    plan, price = trials(3), Price(1.0, 2.0)
    thinks = Capabilities(reasons=True, reasoning_tokens=500, usage=True)
    (cost, warning) = precautions(plan, SPEC, price, thinks, None)
    assert cost.startswith("at most $0.")
    assert "reasons before it answers" in warning
    assert "--reasoning-tokens 4096" in warning
    roomy = EndpointSpec(SPEC.url, SPEC.model, reasoning_tokens=4096)
    assert len(precautions(plan, roomy, price, thinks, None)) == 1
    assert precautions(plan, SPEC, None, Capabilities(reasons=False), None) == []
    assert precautions([], SPEC, price, thinks, None) == []


def test_other_things_to_know_before_paying() -> None:
    """A key with too little left, an endpoint without usage, prompts that it cannot read."""
    plan, price = trials(3), Price(1e6, 1e6)
    key = KeyLimits(10.0, 0.5, 9.5, None)
    told = precautions(plan, SPEC, price, Capabilities(usage=False, context_limit=1), key)
    assert [line.split(":")[0] for line in told[1:]] == ["warning"] * 3
    assert "$0.5000 left on the key" in told[1]


def test_what_doctor_found_is_kept_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record comes back by fingerprint; an old, damaged or foreign one is none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = Capabilities(logprobs=True, top_logprobs=5, dropped_fields=("seed",))
    path = remember(SPEC.fingerprint, found)
    kept = known_capabilities(SPEC.fingerprint)
    assert kept is not None
    assert (kept.logprobs, kept.top_logprobs) == (True, 5)
    assert known_capabilities(SPEC.fingerprint, now=path.stat().st_mtime + 31 * 86_400) is None
    assert known_capabilities("other") is None
    for damaged in ("", "[]", "{}", '{"at": 1e12, "capabilities": []}', '{"at": "x", "capabilities": {}}'):
        path.write_text(damaged, "utf-8")
        assert known_capabilities(SPEC.fingerprint) is None


def test_a_budget_in_dollars_at_the_given_price_ends_the_run(
    cli: Cli, suite_file: Path, tmp_path: Path
) -> None:
    """The estimate is told before, the phantom has charged no cent more than allowed, and what came is kept."""
    charge = Charge(prompt=1e-4, completion=1e-3, report=False)
    with Phantom(Behaviour(price=charge)) as phantom:
        run = tmp_path / "run.db"
        done = cli(
            "run", suite_file, "-e", phantom.url, "--run", run, "--budget", "$0.30", "--price", "100/1000"
        )
        spent = phantom.stats.cost
    assert done.returncode == 4, done.stderr
    assert "at most $" in done.stderr
    assert "given price" in done.stderr
    assert 0 < spent <= 0.30
    assert len(frame(run)) > 0


def test_a_run_on_a_clock_counts_from_the_clock(cli: Cli, suite_file: Path, tmp_path: Path) -> None:
    """With --rate the times from the scheduled moment are there, never shorter than those from sending."""
    run, out = tmp_path / "run.db", tmp_path / "frame.parquet"
    with Phantom() as phantom:
        arguments = ["--rate", "200/s", "--arrivals", "constant", "--requests-per-minute", "1000"]
        done = cli("run", suite_file, "-e", phantom.url, "--run", run, *arguments)
        assert done.returncode == 0, done.stderr
        assert cli("frame", run, "--out", out).returncode == 0
    table = pd.read_parquet(out)
    assert list(table) == list(COLUMNS)
    assert len(table) == 21
    assert (table["latency_scheduled_s"] >= table["latency_s"] - 0.001).all()
    assert (table["in_flight"] >= 1).all()
    assert (table["usage_source"] == "usage").all()


def test_plan_knows_the_price_of_a_named_endpoint(cli: Cli, suite_file: Path) -> None:
    """By the price table for a known host; and whether a budget holds the whole of it."""
    where = ["-e", "https://api.openai.com/v1", "-m", "gpt-4o-mini"]
    told = json.loads(cli("plan", suite_file, *where, "--budget", "$0.0001", "--json").stdout)
    assert told["price"]["source"] == "table"
    assert told["dollars_at_most"] == pytest.approx(
        (told["prompt_tokens"] * 0.15 + told["answer_tokens"] * 0.60) / 1e6
    )
    assert told["within_budget"] is False
    plain = json.loads(cli("plan", suite_file, "--rate", "7/s", "--json").stdout)
    assert plain["seconds_at_most"] == pytest.approx(3.0)
