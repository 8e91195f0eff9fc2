"""One file for a plan and sums under it: numpy's .npz with a JSON description, no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from tamis.estimators.model import Pool
from tamis.estimators.plan import Plan
from tamis.estimators.table import Encoder, Nominal, Number
from tamis.kernels.chebyshev import Basis, Chebyshev, Levels
from tamis.kernels.statistics import ColumnFunctions

FORMAT = "tamis statistics 1"


def describe(plan: Plan, *, strict: bool = False) -> dict[str, Any]:
    """Everything but the arrays, as JSON values; `strict` refuses labels that would not come back as they are."""
    return {
        "format": FORMAT,
        "names": list(plan.encoder.names),
        "columns": [_column_to_dict(column, strict) for column in plan.encoder.columns],
        "bases": [_basis_to_dict(basis) for basis in plan.functions.bases],
        "gaps": list(plan.functions.gaps),
        "classes": _plain(plan.classes, "the class" if strict else None),
        "class_kind": "object" if plan.classes.dtype == object else plan.classes.dtype.str,
        "labels": _plain(plan.pool_labels),
        "n_folds": plan.n_folds,
        "seed": plan.seed,
        "categorical": None if plan.categorical is None else list(plan.categorical),
        "allow_missing": plan.allow_missing,
        "winsorise": plan.winsorise,
        "named": plan.named,
        "dtype": plan.dtype,
    }


def _arrays(plan: Plan) -> dict[str, np.ndarray]:
    return {
        "class_factor": plan.class_factor,
        "pool_Z": plan.pool.Z,
        "pool_codes": plan.pool.codes,
        "pool_position": plan.pool.position,
        "pool_fold": plan.pool_fold,
    }


def digest(plan: Plan) -> str:
    """Identifies a plan: sums of different plans do not add up."""
    parts = [json.dumps(describe(plan)).encode(), *(np.ascontiguousarray(a).tobytes() for a in _arrays(plan).values())]
    return sha256(b"".join(parts)).hexdigest()


def save_sums(path: Path, plan: Plan, arrays: dict[str, np.ndarray]) -> None:
    """Write to a temporary name, then rename."""
    text = json.dumps({**describe(plan, strict=True), "digest": digest(plan)})
    arrays = {**arrays, **_arrays(plan), "plan": np.frombuffer(text.encode(), dtype=np.uint8)}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_sums(path: Path) -> tuple[Plan, dict[str, np.ndarray]]:
    """Read what `save_sums` has written."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
        described = json.loads(bytes(arrays["plan"]))
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile) as error:
        raise ValueError(f"{str(path)!r} is not a file of statistics, or is damaged") from error
    if described.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} has the format {described.get('format')!r}, expected {FORMAT!r}")
    try:
        plan = _restore(described, arrays)
        whole = digest(plan) == described["digest"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is damaged: its plan is not complete") from error
    if not whole:
        raise ValueError(f"{str(path)!r} is damaged: its plan does not match its digest")
    return plan, arrays


def _restore(described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Plan:
    kind = described["class_kind"]
    return Plan(
        Encoder(tuple(_column_from_dict(c) for c in described["columns"]), tuple(described["names"])),
        ColumnFunctions(tuple(_basis_from_dict(b) for b in described["bases"]), tuple(described["gaps"])),
        np.array(described["classes"], dtype=object if kind == "object" else kind),
        arrays["class_factor"],
        Pool(arrays["pool_Z"], arrays["pool_codes"], arrays["pool_position"]),
        arrays["pool_fold"],
        np.array(described["labels"], dtype=object),
        described["n_folds"],
        described["seed"],
        None if described["categorical"] is None else tuple(described["categorical"]),
        described["allow_missing"],
        described["winsorise"],
        described["named"],
        described["dtype"],
    )


def _plain(values: np.ndarray, what: str | None = None) -> list[Any]:
    """Labels as JSON values; types that JSON does not have become text, or are refused as `what`."""
    plain = [v.item() if isinstance(v, np.generic) else v for v in values.tolist()]
    odd = [v for v in plain if not (isinstance(v, str | bool | int | float) or v is None)]
    if odd and what is not None:
        raise ValueError(
            f"{what} {odd[0]!r} is of the type {type(odd[0]).__name__}, which a file cannot hold: use text or numbers"
        )
    return [str(v) if v in odd else v for v in plain] if odd else plain


def _objects(values: tuple[Any, ...]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _column_to_dict(column: Number | Nominal, strict: bool) -> dict[str, Any]:
    if isinstance(column, Nominal):
        return {
            "levels": _plain(_objects(column.levels), "the category" if strict else None),
            "fill": _number(column.fill),
        }
    out = {name: _number(value) for name, value in asdict(column).items() if name not in ("knots", "ranks")}
    for name in ("knots", "ranks"):
        values = getattr(column, name)
        out[name] = None if values is None else values.tolist()
    return out


def _column_from_dict(described: dict[str, Any]) -> Number | Nominal:
    fill = np.nan if described["fill"] is None else described["fill"]
    if "levels" in described:
        return Nominal(tuple(described["levels"]), fill)
    arrays = {name: None if described[name] is None else np.array(described[name]) for name in ("knots", "ranks")}
    return Number(**{**described, **arrays, "fill": fill})


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _basis_to_dict(basis: Basis) -> dict[str, Any]:
    kind = {Chebyshev: "chebyshev", Levels: "levels"}[type(basis)]
    return {"kind": kind, **asdict(basis)}  # type: ignore[call-overload]


def _basis_from_dict(described: dict[str, Any]) -> Basis:
    described = dict(described)
    if described.pop("kind") == "levels":
        return Levels(tuple(described["values"]), described["nearest"])
    return Chebyshev(**described)
