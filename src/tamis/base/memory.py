"""The memory that a fit takes, computed before it begins, and the memory that there is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from tamis.kernels.bank import MAX_COMPACT_BYTES, MAX_DENSE_BYTES
from tamis.kernels.stacks.factored import ROWS_PER_FACTOR
from tamis.parallel import available_cores

NUMBER = 8  # bytes
GROUP = "/proc/self/cgroup"
HOST_SQUARES = 2.0  # matrices between all rows in memory at a time, where the others are on a graphics card
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
TEXT = re.compile(r"^\s*([0-9]*\.?[0-9]+)\s*([kmgt]i?)?b?\s*$", re.IGNORECASE)
CGROUPS = (  # files of control groups, versions 2 and 1: root, limit, use, the part of it that can be freed
    ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
MemoryEstimate = dict[str, float]  # bytes, by what takes them


@dataclass(frozen=True)
class Size:
    """What a memory estimate depends on."""

    rows: int  # distinct training rows
    columns: int  # of the table
    kernels: int  # how many; of several choices the most
    single: int  # those among them that stand on one column
    outputs: int  # one for two classes and for a number, else one for each class
    # (single,) about how many factors those of one column have, however many rows there are
    ranks: tuple[float, ...] = ()

    @property
    def table(self) -> float:
        """Bytes of the encoded rows."""
        return NUMBER * self.rows * self.columns

    @property
    def square(self) -> float:
        """Bytes of a matrix between all rows."""
        return NUMBER * self.rows**2

    @property
    def values(self) -> float:
        """Bytes of all kernels between all rows."""
        return self.kernels * self.square

    def factors(self, most: int) -> float:
        """Rows of the factors of all kernels, each of at most `most`."""
        return sum(min(most, rank) for rank in self.ranks) + (self.kernels - len(self.ranks)) * most


def kept_values(size: Size, form: str) -> float:
    """Bytes of the kernels between all rows that a stack of some form keeps (see `KernelBank.stack`)."""
    most = {"dense": np.inf, "auto": MAX_DENSE_BYTES, "compact": MAX_COMPACT_BYTES}.get(form, 0)
    if form == "factored":
        # a kernel whose factors are too long is streamed
        tried = size.square / ROWS_PER_FACTOR if size.single < size.kernels else 0.0
        return tried + NUMBER * size.rows * sum(rank for rank in size.ranks if np.isfinite(rank))
    return size.values if size.values <= most else 0.0


def square_memory(size: Size, kept: float, squares: float, device: str | None) -> MemoryEstimate:
    """What kernels and matrices between all rows take of the memory, of which a graphics card has its own.

    Parameters
    ----------
    kept : bytes of kernel values that are held in numpy; on a device all are
    squares : matrices between all rows that a solver holds at its peak
    """
    if device is not None:
        kept, squares = (size.values, squares) if device.startswith("cpu") else (0.0, min(squares, HOST_SQUARES))
    return {"kernel values": kept, "matrices between all rows": squares * size.square}


def jobs_of(n_jobs: int | None) -> int:
    """Processes that a number of jobs stands for."""
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(1, available_cores() + 1 + n_jobs)


# ---------------------------------------------------------------------- what there is


def to_bytes(value: Any) -> float:
    """Bytes from a number of them, or from text such as "2GB" or "512 MiB"."""
    if isinstance(value, str):
        found = TEXT.match(value)
        if found:
            return float(found[1]) * UNITS[(found[2] or "").lower()]
    elif isinstance(value, Real) and not isinstance(value, bool) and float(value) > 0:
        return float(value)
    raise ValueError(
        f"memory_limit={value!r} must be a positive number of bytes, text such as '2GB' or '512MiB', or None for what "
        "the machine has"
    )


def available_memory() -> float:
    """Bytes that this process can have without swapping; infinite where the system does not report them."""
    found = [*_from_meminfo(), *_from_cgroups()] or [*_from_sysconf()]
    return min(found, default=float("inf"))


def _from_meminfo() -> list[float]:
    """Linux: what is free or can be freed."""
    lines = _read("/proc/meminfo").splitlines()
    return [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]


def _from_cgroups() -> list[float]:
    """Linux: what a container still has, the groups that it is within included; files held in memory can be freed."""
    own = {line.rpartition(":")[2] for line in _read(GROUP).splitlines()} | {"/"}
    paths = sorted({str(p) for path in own for p in (PurePosixPath(path), *PurePosixPath(path).parents)})
    found = []
    for root, limit, used, freed in CGROUPS:
        for folder in (root + path for path in paths):
            most, now = _read(f"{folder}/{limit}").strip(), _read(f"{folder}/{used}").strip()
            if most.isdigit() and now.isdigit():
                told = dict(line.split()[:2] for line in _read(f"{folder}/memory.stat").splitlines() if " " in line)
                found.append(max(0.0, float(most) - float(now) + float(told.get(freed, 0))))
    return found


def _from_sysconf() -> list[float]:
    """Other systems that know: free pages, or half of all of them."""
    names = getattr(os, "sysconf_names", {})
    for name, share in (("SC_AVPHYS_PAGES", 1.0), ("SC_PHYS_PAGES", 0.5)):
        if name in names and "SC_PAGE_SIZE" in names:
            pages = os.sysconf(name)
            if pages > 0:
                return [share * pages * os.sysconf("SC_PAGE_SIZE")]
    return []


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


# ---------------------------------------------------------------------- the two together


def ordered(estimate: MemoryEstimate) -> dict[str, int]:
    """The estimate with its largest entries first, in whole bytes, without those of nothing."""
    return {what: round(size) for what, size in sorted(estimate.items(), key=lambda entry: -entry[1]) if size >= 1}


def check_estimate(
    name: str,
    estimate: Callable[[Size], MemoryEstimate],
    limit: Any,
    alternative: Callable[[Size, float], str],
    size: Size,
) -> None:
    """Refuse a fit that takes more memory than the limit (None: than there is), and suggest an alternative."""
    entries, room = ordered(estimate(size)), available_memory() if limit is None else to_bytes(limit)
    total = sum(entries.values())
    if total <= room:
        return
    parts = ", ".join(f"{format_bytes(value)} for {what}" for what, value in entries.items())
    given = "the memory that is available" if limit is None else f"memory_limit={limit!r}"
    most = fitting(size, estimate, room)
    fewer = f"give at most {most} rows, or " if most else ""
    raise ValueError(
        f"X has {size.rows} distinct rows, for which {name} takes about {format_bytes(total)}: {parts}. That is more "
        f"than {given} ({format_bytes(room)}): {alternative(size, room)}, or {fewer}raise memory_limit"
    )


def fitting(size: Size, estimate: Callable[[Size], MemoryEstimate], room: float) -> int:
    """About how many rows there is room for, to two digits."""
    low, high = 0, size.rows
    while high - low > 1:
        middle = (low + high) // 2
        fits = sum(estimate(replace(size, rows=middle)).values()) <= room
        low, high = (middle, high) if fits else (low, middle)
    digits = 10 ** max(0, len(str(low)) - 2)
    return int(low // digits * digits) if low >= 10 else 0


def format_bytes(size: float) -> str:
    """Bytes in words."""
    if not np.isfinite(size):
        return "unlimited"
    return f"{size / 2**30:.3g} GiB"
