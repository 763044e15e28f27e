"""What the cells alone say, one free share a position and no curve: the model beside all curves.

Its likelihood region at a position is the cell's own interval, and between two positions a straight line. Its
window is known up to a gap: the score leaves a fraction of its base somewhere between two tested positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bunny_probe.fits.proportions import wilson

__all__ = ["cell_crossings", "cell_values"]

Floats = npt.NDArray[np.float64]

_BASES = 41  # shares tried for the first cell


def cell_values(x: Floats, k: Floats, n: Floats, room: Floats, at: Floats) -> tuple[Floats, Floats]:
    """(lowest, highest) share at each position of `at` (q,) within a deviance of `room` (...): (..., q) each.

    `x`: (m,); `k`, `n`: (..., m). Without room there is nothing to add: inf and -inf.
    """
    z: Any = np.sqrt(np.maximum(room, 0.0))[..., None]  # one a data set, where a fit has one for all
    cells = wilson(k, n, z=z)
    between = np.stack([np.interp(np.log(at), np.log(x), one) for one in np.eye(x.size)])
    use = (room > 0)[..., None]
    return np.where(use, cells[0] @ between, np.inf), np.where(use, cells[1] @ between, -np.inf)


def cell_crossings(x: Floats, k: Floats, n: Floats, room: Floats, fraction: float) -> tuple[Floats, Floats]:
    """(lowest, highest) ln(x) of the first fall under `fraction` of the first cell's share: (...) each.

    That the fall is in a gap means that all cells before are above and the one behind it is below. A gap is
    allowed where such shares are within a deviance of `room` (...); the interval goes from the first allowed
    gap's start to the last one's end. inf: beyond the last position. Without room: inf and -inf.
    """
    shape = np.broadcast_shapes(k.shape, n.shape)
    k, n = (np.broadcast_to(v, shape).reshape(-1, shape[-1]) for v in (k, n))
    spare = np.maximum(room, 0.0).reshape(-1)
    z: Any = 1.2 * np.sqrt(spare)[:, None]  # a base further off costs more than there is
    low, high = wilson(k[:, :1], n[:, :1], z=z)
    base = low + (high - low) * np.linspace(0, 1, _BASES)  # (b, g)
    share = np.clip(k / n, 1e-12, 1 - 1e-12)[:, None, :]
    wanted = np.clip(base[..., None] * np.array([1.0, *[fraction] * (x.size - 1)]), 1e-12, 1 - 1e-12)
    hits, misses = k[:, None, :], (n - k)[:, None, :]
    cost = 2 * (hits * np.log(share / wanted) + misses * np.log((1 - share) / (1 - wanted)))
    cost = np.maximum(cost, 0.0)  # (b, g, m): of forcing a cell to the share wanted of it
    above, below = np.where(share < wanted, cost, 0.0)[..., 1:], np.where(share > wanted, cost, 0.0)[..., 1:]
    held = np.cumsum(np.concatenate([cost[..., :1], above], axis=-1), axis=-1)  # up to each cell
    falls = (held[..., :-1] + below).min(axis=1) <= spare[:, None]  # (b, m - 1) by gap
    stays = held[..., -1].min(axis=1) <= spare
    place = np.log(x)
    gaps = x.size - 1
    first = np.where(falls.any(axis=1), place[falls.argmax(axis=1)], np.inf)
    last = np.where(falls.any(axis=1), place[gaps - falls[:, ::-1].argmax(axis=1)], -np.inf)
    use = (room > 0).reshape(-1)
    return (
        np.where(use, first, np.inf).reshape(shape[:-1]),
        np.where(use, np.where(stays, np.inf, last), -np.inf).reshape(shape[:-1]),
    )
