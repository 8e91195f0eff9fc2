"""Cells, which are run, and rows, which record their results."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import tamis

PROTOCOLS = ("honest", "paper")
SIZES = ("quick", "full")
MEASURES = (
    "accuracy",
    "log_loss",
    "ece",
    "auc",
    "ks",
    "f1",
    "mcc",
    "n_instances",
    "n_features",
    "irr",
    "frr",
    "ip",
    "dr",
    "n_kernels",
    "n_terms",
    "bytes",
    "seconds",
    "predict_seconds",
)
OK, NOT_CONVERGED, FAILED = "ok", "not converged", "failed"
PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "xgboost", "interpret")


def installed(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def versions() -> str:
    """Return the versions of Python, tamis and the packages that numbers depend on, as JSON."""
    return json.dumps({"tamis": tamis.__version__, **installed(PACKAGES)})


@cache
def machine() -> str:
    """Return the name of the processor and of the operating system."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {platform.system()}"


@dataclass(frozen=True, order=True)
class Cell:
    """One run: a method on one split of a dataset.

    Attributes
    ----------
    paper, protocol, size : the comparison, its protocol, and "quick" or "full"
    dataset, method : names
    split : number of the split or repetition
    setting : what else varies, such as the share of absent channels; else empty
    """

    paper: str
    protocol: str
    size: str
    dataset: str
    split: int
    setting: str
    method: str


KEY = tuple(Cell.__dataclass_fields__)


@dataclass(frozen=True)
class Row:
    """The result of a cell.

    Attributes
    ----------
    measures : {name: number} for those of `MEASURES` that the method has
    status : "ok", "not converged" or "failed"
    error : why the cell failed, else empty
    seed : of the split and of every random choice
    chosen : settings that were chosen on training rows
    extra : data of figures
    versions, machine, finished : of the packages, the processor and the end of the run
    """

    cell: Cell
    measures: Mapping[str, float]
    status: str = OK
    error: str = ""
    seed: int = 0
    chosen: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    versions: str = field(default_factory=versions)
    machine: str = field(default_factory=machine)
    finished: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    def flat(self) -> dict[str, Any]:
        """Return the columns of a table; NaN becomes None."""
        found = {name: _number(self.measures.get(name)) for name in MEASURES}
        texts = {name: getattr(self, name) for name in ("status", "error", "seed", "versions", "machine", "finished")}
        more = {name: json.dumps(plain(getattr(self, name)), allow_nan=False) for name in ("chosen", "extra")}
        return {**asdict(self.cell), **found, **texts, **more}

    @classmethod
    def of(cls, flat: Mapping[str, Any]) -> Row:
        """Return the row of `flat` columns."""
        own = {name: flat[name] for name in ("status", "error", "seed", "versions", "machine", "finished")}
        found = {name: float(flat[name]) for name in MEASURES if flat[name] is not None}
        chosen, extra = json.loads(flat["chosen"]), json.loads(flat["extra"])
        return cls(Cell(**{name: flat[name] for name in KEY}), found, chosen=chosen, extra=extra, **own)


def plain(value: Any) -> Any:
    """Convert to JSON values: arrays to lists, NaN to None."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return _number(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
