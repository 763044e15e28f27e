"""How threads wait, and what is left out when the server imports torch."""

from __future__ import annotations

import subprocess
import sys

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


def test_what_the_servers_import_of_torch_leaves_out_can_still_be_imported() -> None:
    """Products run without it, and who needs shape functions gets them."""
    code = (
        "from bunny_engine.serving import _import_torch\n"
        "_import_torch()\n"
        "import sys, torch\n"
        "assert 'torch._meta_registrations' not in sys.modules\n"
        "assert float(torch.nn.functional.linear(torch.ones(1, 2), torch.ones(1, 2))) == 2\n"
        "import torch._meta_registrations\n"
        "assert torch._meta_registrations.register_meta\n"
        "assert (torch.empty(2, 3, device='meta') @ torch.empty(3, 4, device='meta')).shape == (2, 4)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
