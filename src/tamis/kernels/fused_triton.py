"""The recurrence of Chebyshev polynomials as one kernel: every value is read once and written once."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

ROWS = 1024  # of one program


@triton.jit  # type: ignore[untyped-decorator]  # it is Triton's
def _recurrence(t, out, degrees, starts, m, columns, stride_piece, stride_row, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    piece = tl.program_id(2).to(tl.int64)
    column = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < m
    x = tl.load(t + (piece * columns + column) * m + rows, mask=inside, other=0.0)
    there = x == x
    x = tl.where(there, x, 0.0)
    before = tl.full((ROWS,), 1.0, x.dtype)
    last = x
    base = out + piece * stride_piece
    for k in range(1, tl.load(degrees + column)):
        place = (tl.load(starts + k) + column).to(tl.int64)
        tl.store(base + place * stride_row + rows, tl.where(there, last, 0.0), mask=inside)
        following = 2.0 * x * last - before
        before = last
        last = following


def launch(t: Any, out: Any, degrees: Any, starts: Any) -> None:
    """Fill `out` (b, A, m) from t (b, c, m); degrees (c,) and starts (of each degree) are integers on the device."""
    pieces, columns, m = t.shape
    grid = (triton.cdiv(m, ROWS), columns, pieces)
    _recurrence[grid](t, out, degrees, starts, m, columns, out.stride(0), out.stride(1), ROWS=ROWS)
