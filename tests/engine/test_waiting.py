"""How the threads of a product wait for the next one."""

from __future__ import annotations

import pytest
from bunny_engine.errors import OptionError
from bunny_engine.serving import ServeOptions
from bunny_engine.waiting import WAITS, wait_as


def test_each_way_to_wait_leaves_nothing_of_another() -> None:
    """Whatever was set before, OpenMP reads what was asked for."""
    seen = []
    environment = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "7", "HOME": "/"}
    for how in WAITS:
        wait_as(how, environment)
        seen.append(dict(environment))
    assert seen == [
        {"GOMP_SPINCOUNT": "20000", "HOME": "/"},
        {"OMP_WAIT_POLICY": "passive", "HOME": "/"},
        {"OMP_WAIT_POLICY": "active", "HOME": "/"},
    ]


def test_an_unknown_way_is_refused_with_the_choices() -> None:
    """A word that means nothing is no setting."""
    with pytest.raises(OptionError, match="brief, passive, active"):
        ServeOptions(model="m", wait="spin")
