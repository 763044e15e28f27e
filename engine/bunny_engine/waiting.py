"""How the threads of a parallel product wait for the next one: OpenMP reads it once, when torch is imported.

Between two products of a forward pass lie tens of microseconds, and to wake a sleeping thread takes as long
or longer: threads that spin for a moment read a prompt 1.8 times as fast. On a machine with more to do than
cores a thread that spins keeps the core from the one it waits for: then sleeping is 1.6 to 2.5 times faster,
and to spin without end 20 times slower.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

__all__ = ["WAITS", "wait_as"]

WAITS = ("brief", "passive", "active")
_SPINS = "20000"  # about 0.3 ms


def wait_as(how: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """`brief`: spin for a moment, then sleep; `passive`: sleep at once; `active`: spin."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        environment.pop(name, None)
    if how == "brief":
        environment["GOMP_SPINCOUNT"] = _SPINS
    else:
        environment["OMP_WAIT_POLICY"] = how
