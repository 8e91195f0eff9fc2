"""Non-negative quadratic pursuit: many sparse non-negative codes over one matrix [Hosseini2019, Algorithm 2].

    min_x  1/2 x'Qx + c'x    subject to  x >= 0,  at most `limit` entries positive,    for every row c

An entry at a time joins the support, the one of least gradient, and x becomes the minimum over the support; entries
that would be negative there leave it on the way. Without a limit this is an active-set method and ends at the exact
non-negative solution wherever c is in the range of Q (for regular Q always). With a limit it is greedy: of good but
not of best value.

    here            there
    c               c
    limit           T_0
    index, size     I, the support, and the number of its entries
    factor          L, the Cholesky factor of Q_II
    barrier         c on the entries that may join, infinite on others

Departures from the listing, all of which change results:

1.  The support grows by a union, not an intersection; the system is ``Q_II z = -c_I``; the first factor is
    ``sqrt(q_jj)``, and the new row of the factor comes from the support before j joined.
2.  "Value below eps" holds after one entry, for the value starts at zero and falls. A pursuit with a limit ends when a
    pass lowers the value by less than 1e-12 of it; one without goes on to the optimality conditions.
3.  Where z has entries of zero or less, x moves towards it to the first zero, the entries that reach zero leave the
    support and its factor and may join again, and z is solved for anew. The newest entry is never the first to
    leave: x is stationary on the support before it, so it can only grow.
4.  An entry with a pivot below 1e-10 q_jj depends on the support and is discarded: with a limit for good, without one
    until the support loses an entry, for it may not depend on the rest. Entries with ``q_jj = 0`` never join. Where c
    is not in the range of Q, exchanging a dependent entry for another could still lower the value.

All problems of a block advance together, one entry per pass; their factors have the problems as last axis, are padded
with the identity to the largest support, and grow with it. Problems that are finished are removed in bulk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpstrf, dtrtrs
from scipy.sparse import csr_array

GRADIENT = 1e-10  # gradients above minus this share of the largest |c| are none
PIVOT = 1e-10  # pivots below this share of the diagonal entry are none
SINGULAR = 1e-14  # pivots of a given support below this share of the diagonal entry are none
TIED = 1e-2  # of the gradient that is none: gradients so close are equal but for rounding
FALL = 1e-12  # relative fall of the value at which a pursuit with a limit ends
ROUNDING = 1e-15  # relative fall that rounding may feign
PATIENCE = 10  # passes without a limit that lose an entry but do not lower the value
PASSES = 10.0  # most passes, times the number of entries
BLOCK = 1 << 18  # most entries of the problems that advance together
WIDTH = 16  # supports that factors have room for at first
DENSE = 4  # a product with Q is a dense one when supports exceed this part of all entries
LAPACK = 8  # support from which on one problem alone is solved by LAPACK
FINISHED = 4  # finished problems are removed when they are this part of a block


def solve_nqp(Q: np.ndarray, c: np.ndarray, limit: int | None = None) -> np.ndarray:
    """Solve ``min_x 1/2 x'Qx + c'x`` subject to ``x >= 0`` with at most `limit` positive entries, for every row c.

    Parameters
    ----------
    Q : (d, d) symmetric positive semi-definite
    c : (d,) or (b, d)
    limit : at least 1; None for no limit, as is d or more

    Returns
    -------
    x : of the shape of c

    Notes
    -----
    Exact without a limit; greedy with one, but x is the minimum over its support. Of equal gradients the first entry
    counts. Scaling Q and c together changes nothing. `nqp_violation` measures how good x is, also where the passes ran
    out, which are ten times d. A pursuit with a limit that ends early, because the value falls no more, may leave a
    violation up to some 1e-6.
    """
    Q, rows = _checked(Q, c, limit)
    x = np.zeros_like(rows)
    if rows.size:
        block = max(1, BLOCK // len(Q))
        for start in range(0, len(rows), block):
            _pursue(Q, rows[start : start + block], limit, x[start : start + block])
    return x.reshape(np.shape(c))


def nqp_violation(Q: np.ndarray, c: np.ndarray, x: np.ndarray, limit: int | None = None) -> np.ndarray:
    """How far each x (b, d) is from the optimality conditions of its c (b, d), relative to its largest |c|: (b,).

    The largest of ``|Qx + c|_j`` where ``x_j > 0``, ``-(Qx + c)_j`` where ``x_j = 0`` and fewer than `limit` entries
    are positive, and ``-x_j max(diag Q)``. Infinite where more than `limit` are positive. One c (d,) gives a number.

    Notes
    -----
    Entries that cannot join do not count: those with ``q_jj = 0``, and those whose pivot after the support is below
    1e-10 q_jj. Where c is zero, the largest ``|Qx|_j`` takes its place.
    """
    Q, rows = _checked(Q, c, limit)
    if np.shape(x) != np.shape(c):
        raise ValueError(f"x has shape {np.shape(x)} and c {np.shape(c)}: they must be equal")
    X = np.asarray(x, dtype=float).reshape(rows.shape)
    if not rows.size:
        return np.zeros(np.shape(c)[:-1])
    image, top = X @ Q, np.max(np.abs(rows), axis=1)
    scale = np.where(top > 0, top, np.max(np.abs(image), axis=1))
    scale[scale == 0] = 1.0
    gradient = (image + rows) / scale[:, None]
    diagonal, count = np.diagonal(Q), np.count_nonzero(X > 0, axis=1)
    most = rows.shape[1] if limit is None else limit
    may_join = (X <= 0) & (diagonal > 0) & (count < most)[:, None]
    for i in np.flatnonzero(np.any(may_join & (gradient < -GRADIENT), axis=1)):
        could = np.flatnonzero(may_join[i] & (gradient[i] < -GRADIENT))
        may_join[i, could] = _pivots(Q, np.flatnonzero(X[i] > 0), could) >= PIVOT * diagonal[could]
    unit = max(float(np.max(diagonal)), 0.0) or 1.0
    wrong = np.where(X > 0, np.abs(gradient), np.where(may_join, -gradient, 0.0))
    worst = np.max(np.maximum(wrong, -X * (unit / scale)[:, None]), axis=1)
    return np.where(count > most, np.inf, np.maximum(worst, 0.0)).reshape(np.shape(c)[:-1])


def _checked(Q: np.ndarray, c: np.ndarray, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Q (d, d) in C order and c as (b, d)."""
    Q, c = np.asarray(Q, dtype=float), np.asarray(c, dtype=float)
    if Q.ndim != 2 or Q.shape[0] != Q.shape[1] or c.ndim not in (1, 2) or c.shape[-1] != len(Q):
        raise ValueError(f"Q and c have shapes {Q.shape} and {c.shape}: they must be (d, d) and (d,) or (b, d)")
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit}: at least one entry must be allowed; give 1 or more, or None for no limit")
    if not np.all(np.isfinite(c)) or not np.all(np.isfinite(np.diagonal(Q))):
        raise ValueError("Q or c holds infinite or missing numbers: remove those entries")
    Q = Q.T if Q.flags.f_contiguous else np.ascontiguousarray(Q)  # symmetric
    return Q, np.atleast_2d(c)


def _pivots(Q: np.ndarray, support: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """What is left of the diagonal of some entries after a support, which may depend on itself."""
    left = np.diagonal(Q)[entries].copy()
    root = np.sqrt(np.maximum(np.diagonal(Q)[support], 0.0))
    support, root = support[root > 0], root[root > 0]
    if not len(support):
        return left
    factor, order, rank, _ = dpstrf(Q[np.ix_(support, support)] / np.outer(root, root), lower=1, tol=SINGULAR)
    first = order[:rank] - 1
    side = Q[np.ix_(support[first], entries)] / root[first, None]
    V, _ = dtrtrs(factor[:rank, :rank], side, lower=1)
    return left - np.einsum("ij,ij->j", V, V)


@dataclass
class _Batch:
    """Problems under way; entries of a support beyond `size` are padding."""

    rows: np.ndarray  # (b,) which rows of c they are
    barrier: np.ndarray  # (b, d) c where an entry may join, infinite elsewhere
    floor: np.ndarray  # (b,) least gradient that is none
    done: np.ndarray  # (b,) whether nothing remains to be done
    energy: np.ndarray  # (b,) ``c_I'Q_II^{-1}c_I``, minus twice the value
    idle: np.ndarray  # (b,) passes in vain
    size: np.ndarray  # (b,) entries of the supports
    # index, x, y: (w, b) supports, solutions on them and ``factor y = -c_I``; padded with any entry and with zeros
    index: np.ndarray
    x: np.ndarray
    y: np.ndarray
    factor: np.ndarray  # (w, w, b) lower triangular; padded with the identity

    @classmethod
    def start(cls, Q: np.ndarray, c: np.ndarray, width: int) -> _Batch:
        """Empty supports with room for some entries."""
        b = len(c)
        barrier = np.where(np.diagonal(Q) > 0, c, np.inf)
        floor = -GRADIENT * np.max(np.abs(c), axis=1)
        none, flat = np.zeros(b, dtype=int), np.zeros((width, b))
        factor = np.zeros((width, width, b))
        factor[np.arange(width), np.arange(width)] = 1.0
        index = np.zeros((width, b), dtype=int)
        return cls(
            np.arange(b), barrier, floor, none > 0, np.zeros(b), none, none.copy(), index, flat, flat.copy(), factor
        )

    def live(self, width: int) -> np.ndarray:
        """Which places (width, b) hold an entry."""
        return np.arange(width)[:, None] < self.size

    def widen(self, width: int) -> None:
        """Make room for supports of this size."""
        more = width - len(self.index)
        if more > 0:
            below = ((0, more), (0, 0))
            self.index, self.x, self.y = (np.pad(a, below) for a in (self.index, self.x, self.y))
            self.factor = np.pad(self.factor, ((0, more), *below))
            new = np.arange(width - more, width)
            self.factor[new, new] = 1.0

    def remove_finished(self) -> None:
        """Go on without what is done."""
        keep = np.flatnonzero(~self.done)
        for name in ("rows", "barrier", "floor", "done", "energy", "idle", "size"):
            setattr(self, name, getattr(self, name)[keep])
        for name in ("index", "x", "y", "factor"):
            setattr(self, name, np.take(getattr(self, name), keep, axis=-1))

    def write(self, out: np.ndarray, which: np.ndarray) -> None:
        """Write some solutions into their rows."""
        live = self.live(len(self.index)) & which
        out[np.broadcast_to(self.rows, live.shape)[live], self.index[live]] = self.x[live]


def _pursue(Q: np.ndarray, c: np.ndarray, limit: int | None, out: np.ndarray) -> None:
    """Solve a block of problems into `out`, which is zero."""
    d = len(Q)
    most = d if limit is None else min(limit, d)
    batch = _Batch.start(Q, c, min(most, WIDTH))
    for _ in range(int(PASSES * (d + 1))):
        gradient = _gradient(Q, batch)
        least = gradient.min(axis=1)
        j = np.argmax(gradient <= (least - TIED * batch.floor)[:, None], axis=1)
        if np.isnan(least).any():
            raise ValueError("Q holds infinite or missing numbers: remove those entries")
        batch.done |= least >= batch.floor
        joined = _join(Q, c, batch, j, most)
        crossed = _solve(Q, c, batch, exact=most == d)
        _finish(batch, joined, crossed, most, exact=most == d)
        if batch.done.sum() * FINISHED >= len(j):
            batch.write(out, batch.done)
            if batch.done.all():
                return
            batch.remove_finished()
    batch.write(out, np.ones(len(batch.rows), dtype=bool))


def _gradient(Q: np.ndarray, batch: _Batch) -> np.ndarray:
    """``Qx + c`` (b, d) on the entries that may join, infinite on others; ``c`` alone for what is done."""
    width = int(batch.size.max())
    if not width:
        return batch.barrier
    b, d = batch.barrier.shape
    if b == 1:
        return batch.x[:width, 0] @ Q[batch.index[:width, 0]] + batch.barrier
    ends = np.arange(0, b * width + 1, width)
    X = csr_array((batch.x[:width].T.ravel(), batch.index[:width].T.ravel(), ends), shape=(b, d))
    gradient = (X.toarray() if width * DENSE > d else X) @ Q
    gradient += batch.barrier
    return gradient


def _join(Q: np.ndarray, c: np.ndarray, batch: _Batch, j: np.ndarray, most: int) -> np.ndarray:
    """Grow the factors of open problems by entries j where these are independent; whether they did (b,)."""
    width = int(batch.size.max())
    q = np.diagonal(Q)[j]
    v = np.where(batch.live(width), Q.take(batch.index[:width] * len(Q) + j), 0.0)
    _forward(batch.factor[:width, :width], v)
    pivot = q - np.einsum("kb,kb->b", v, v)
    right = -c[batch.rows, j] - np.einsum("kb,kb->b", v, batch.y[:width])
    joins = ~batch.done & (pivot >= PIVOT * q) & (right > 0)  # right is -gradient: positive but for rounding
    tried = np.flatnonzero(~batch.done)
    batch.barrier[tried, j[tried]] = np.inf
    new = np.flatnonzero(joins)
    if len(new):
        place, root = batch.size[new], np.sqrt(pivot[new])
        if place.max() >= len(batch.index):
            batch.widen(min(most, 2 * len(batch.index)))
        for k in np.unique(place):
            np.copyto(batch.factor[k, :width], v, where=joins & (batch.size == k))
        batch.factor[place, place, new] = root
        batch.y[place, new] = right[new] / root
        batch.index[place, new] = j[new]
        batch.size[new] += 1
    return joins


def _solve(Q: np.ndarray, c: np.ndarray, batch: _Batch, *, exact: bool) -> np.ndarray:
    """Move x to the minimum over each support, which loses the entries that reach zero; which problems lost some."""
    width = int(batch.size.max())
    z = batch.y[:width].copy()
    _backward(batch.factor[:width, :width], z)
    crossed = crossing = np.flatnonzero(np.any((z <= 0) & batch.live(width), axis=0))
    while len(crossing):
        _step_back(c, batch, z, crossing)
        if exact:
            _reopen(Q, c, batch, crossing, width)
        z[:, crossing] = _rebuild(Q, c, batch, crossing, width)
        crossing = crossing[np.any((z <= 0) & batch.live(width), axis=0)[crossing]]
    batch.x[:width] = z
    return crossed


def _step_back(c: np.ndarray, batch: _Batch, z: np.ndarray, some: np.ndarray) -> None:
    """Go from x towards z to the first zero and let what is zero there leave the supports, for some problems."""
    width, each = len(z), np.arange(len(some))
    index, x, live = batch.index[:width, some], batch.x[:width, some], batch.live(width)[:, some]
    way = x - z[:, some]
    share = np.divide(x, way, out=np.zeros_like(x), where=way > 0)
    share[~live | (z[:, some] > 0)] = np.inf
    step = share.min(axis=0)
    place, problem = np.nonzero(share <= step)
    left = index[place, problem]
    batch.barrier[some[problem], left] = c[batch.rows[some[problem]], left]
    live[place, problem] = False
    order = np.argsort(~live, axis=0, kind="stable")
    batch.size[some] = np.count_nonzero(live, axis=0)
    live = batch.live(width)[:, some]
    batch.index[:width, some] = index[order, each]
    batch.x[:width, some] = np.where(live, (x - step * way)[order, each], 0.0)


def _reopen(Q: np.ndarray, c: np.ndarray, batch: _Batch, some: np.ndarray, width: int) -> None:
    """Let all entries outside the supports of some problems join, also what was discarded."""
    batch.barrier[some] = np.where(np.diagonal(Q) > 0, c[batch.rows[some]], np.inf)
    place, problem = np.nonzero(batch.live(width)[:, some])
    batch.barrier[some[problem], batch.index[place, some[problem]]] = np.inf


def _rebuild(Q: np.ndarray, c: np.ndarray, batch: _Batch, some: np.ndarray, width: int) -> np.ndarray:
    """Factor anew for some problems and solve: (width, k)."""
    index, live = batch.index[:width, some], batch.live(width)[:, some]
    corner = Q.take(index.T[:, :, None] * len(Q) + index.T[:, None, :])
    corner = np.where(live.T[:, :, None] & live.T[:, None, :], corner, np.eye(width))
    factor = np.ascontiguousarray(np.linalg.cholesky(corner).transpose(1, 2, 0))
    y = np.where(live, -c[batch.rows[some], index], 0.0)
    _forward(factor, y)
    batch.factor[:width, :width, some], batch.y[:width, some] = factor, y
    _backward(factor, y)
    return y


def _finish(batch: _Batch, joined: np.ndarray, crossed: np.ndarray, most: int, *, exact: bool) -> None:
    """Mark what is done: full supports, and values that fall no more."""
    energy = np.einsum("kb,kb->b", batch.y, batch.y)
    slight = energy - batch.energy < (ROUNDING if exact else FALL) * energy
    batch.energy = energy
    batch.idle[~slight] = 0
    if exact:
        batch.idle[crossed] += slight[crossed]
        batch.done |= batch.idle >= PATIENCE
    else:
        batch.done |= (joined & slight) | (batch.size >= most)


def _forward(factor: np.ndarray, v: np.ndarray) -> None:
    """Solve ``factor v = v`` in place, for (w, w, b) and (w, b)."""
    if v.shape[1] == 1 and len(v) > LAPACK:
        v[:, 0] = dtrtrs(factor[:, :, 0].T, v[:, 0], trans=1)[0]
        return
    for k, row in enumerate(factor):
        if k:
            v[k] -= np.einsum("kb,kb->b", row[:k], v[:k])
        v[k] /= row[k]


def _backward(factor: np.ndarray, z: np.ndarray) -> None:
    """Solve ``factor' z = z`` in place, for (w, w, b) and (w, b)."""
    if z.shape[1] == 1 and len(z) > LAPACK:
        z[:, 0] = dtrtrs(factor[:, :, 0].T, z[:, 0])[0]
        return
    for k in range(len(z) - 1, -1, -1):
        z[k] /= factor[k, k]
        z[:k] -= factor[k, :k] * z[k]
