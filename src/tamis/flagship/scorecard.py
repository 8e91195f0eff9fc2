"""`Scorecard`: a model of two classes as tables of whole points that can be added up by hand."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score

from tamis.base.calibration import Calibrator
from tamis.codec import replacing
from tamis.errors import check_integer, check_length, check_number
from tamis.flagship.points import MAX_RANGES, Axis, Entry, PointTable, cut_curve, cut_surface
from tamis.flagship.tables import model_tables

if TYPE_CHECKING:
    from tamis.flagship.classifier import TamisClassifier

BASE = "(base points)"  # in the column of features
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # with which spreadsheets take text for a formula
COLUMNS = ("feature", "from", "to", "level")
SECOND = ("second feature", "second from", "second to", "second level")


@dataclass(frozen=True)
class RoundingLoss:
    """What whole points lose on some rows.

    Attributes
    ----------
    log_loss, auc : (of the model, of the scorecard)
    largest_difference : largest modulus of the difference of their log-odds on any row
    """

    log_loss: tuple[float, float]
    auc: tuple[float, float]
    largest_difference: float

    def __str__(self) -> str:
        return (
            f"log-loss {self.log_loss[0]:.4f} of the model and {self.log_loss[1]:.4f} of the scorecard, "
            f"AUC {self.auc[0]:.4f} and {self.auc[1]:.4f}, "
            f"log-odds at most {self.largest_difference:.3f} apart"
        )


@dataclass(frozen=True, repr=False)
class Scorecard:
    """Whole points for ranges of numbers, levels of categories and pairs of both.

    The points of a row are the base points plus those of all features and pairs. They rise with the log-odds of the
    class `good`: a row with the odds ``base_odds : 1`` of that class has about `base_points`, and `pdo` more points
    double the odds.

    Attributes
    ----------
    estimator : the classifier that it was made of
    good, bad : the class whose odds rise with the points, and the other
    base_points, base_odds, pdo : the scale
    base : base points, a whole number
    features : a table for each kept feature
    pairs : a table for each kept pair
    """

    estimator: TamisClassifier
    good: Any
    bad: Any
    base_points: float
    base_odds: float
    pdo: float
    base: int
    features: tuple[PointTable, ...]
    pairs: tuple[PointTable, ...]

    def __repr__(self) -> str:
        return (
            f"Scorecard({len(self.features)} features, {len(self.pairs)} pairs, {self.base_points:g} points at odds of "
            f"{self.base_odds:g} : 1 for {self.good!r}, {self.pdo:g} more points double the odds)"
        )

    def points(self, X: Any) -> np.ndarray:
        """Return the total points (n,) of rows, whole numbers."""
        encoder, model = self.estimator.model_.encoder, self.estimator.model_
        Z = model.encode(self.estimator._table(X))
        values = {
            name: Z[:, j] if column.kind == "category" else column.decode(Z[:, j])
            for j, (name, column) in enumerate(zip(encoder.names, encoder.columns, strict=True))
        }
        total = np.full(len(Z), self.base, dtype=int)
        for table in (*self.features, *self.pairs):
            total += table.at([values[axis.name] for axis in table.axes])
        return total

    def log_odds(self, points: Any) -> np.ndarray:
        """Return the log-odds of the class `good` that belong to points."""
        scaled: np.ndarray = (np.asarray(points) - self.base_points) * (math.log(2.0) / self.pdo)
        return scaled + math.log(self.base_odds)

    def rounding_loss(self, X: Any, y: Any) -> RoundingLoss:
        """Compare the scorecard with the model on rows X of classes y (n,): log-loss, AUC, difference of log-odds."""
        exact, rounded = _log_odds(self.estimator, X, self.good), self.log_odds(self.points(X))
        y = np.asarray(y)
        check_length("y", y, len(exact))
        others = sorted(set(y.tolist()) - {self.good, self.bad}, key=str)
        if others:
            raise ValueError(f"y has the class {others[0]!r}: the scorecard is for {self.good!r} and {self.bad!r}")
        good = y == self.good
        sides = np.where(good, 1.0, -1.0)
        one = good.all() or not good.any()

        def log_loss(odds: np.ndarray) -> float:
            return float(np.mean(np.logaddexp(0.0, -sides * odds)))

        def auc(odds: np.ndarray) -> float:
            return math.nan if one else float(roc_auc_score(good, odds))

        apart = float(np.max(np.abs(rounded - exact)))
        return RoundingLoss((log_loss(exact), log_loss(rounded)), (auc(exact), auc(rounded)), apart)

    # ------------------------------------------------------------------ tables

    def to_frame(self) -> Any:
        """Return all tables as one DataFrame, of pandas if it is installed, else of polars.

        One row for each range or level: feature, from (excluded), to (included), level, points. The first row has the
        base points. A model with pairs has the same four columns for the second feature of a pair too.
        """
        rows = list(self._rows())
        columns = {name: [row[k] for row in rows] for k, name in enumerate(self._columns())}
        try:
            import pandas
        except ImportError:
            pass
        else:
            return pandas.DataFrame(columns)
        try:
            import polars
        except ImportError:
            raise ImportError("to_frame needs pandas or polars: pip install 'tamis[io]'") from None
        return polars.DataFrame(columns, strict=False)

    def save(self, path: str | os.PathLike) -> None:
        """Write the tables to a CSV file or, with a sheet for each pair, to an Excel file (.xlsx).

        The file appears whole or not at all. Names and levels that a spreadsheet would take for a formula have an
        apostrophe before them; open ends of ranges are empty cells.
        """
        kind = Path(path).suffix.lower()
        if kind not in (".csv", ".xlsx"):
            raise ValueError(f"path={str(path)!r} is of no known kind: write to a file that ends in .csv or .xlsx")
        write: Callable[[Path], None] = self._write_csv if kind == ".csv" else self._write_excel
        if kind == ".xlsx":
            _openpyxl()
        with replacing(path) as temporary:
            write(temporary)

    def _columns(self) -> tuple[str, ...]:
        return (*COLUMNS, *(SECOND if self.pairs else ()), "points")

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows of `to_frame`."""
        none = (None, math.nan, math.nan, None)
        blank = none if self.pairs else ()
        yield (BASE, *none[1:], *blank, self.base)
        for table in self.features:
            for entry in self._entries(table.axes[0]):
                yield (*_described(table.axes[0], entry), *blank, int(table.points[entry.position]))
        for table in self.pairs:
            for first in self._entries(table.axes[0]):
                for second in self._entries(table.axes[1]):
                    points = int(table.points[first.position, second.position])
                    yield (*_described(table.axes[0], first), *_described(table.axes[1], second), points)

    def _entries(self, axis: Axis) -> list[Entry]:
        return list(axis.entries(missing=bool(self.estimator.reader_.allow_missing)))

    def _write_csv(self, path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self._columns())
            writer.writerows([_cell(value) for value in row] for row in self._rows())

    def _write_excel(self, path: Path) -> None:
        book = _openpyxl().Workbook()
        sheet = book.active
        sheet.title = "Scorecard"
        sheet.append([*COLUMNS, "points"])
        sheet.append([BASE, None, None, None, self.base])
        for table in self.features:
            for entry in self._entries(table.axes[0]):
                points = int(table.points[entry.position])
                sheet.append([_printable(_cell(value)) for value in (*_described(table.axes[0], entry), points)])
        for k, table in enumerate(self.pairs, 1):
            for row in self._pair_sheet(table):
                (book[f"Pair {k}"] if f"Pair {k}" in book else book.create_sheet(f"Pair {k}")).append(row)
        with path.open("wb") as file:
            book.save(file)

    def _pair_sheet(self, table: PointTable) -> Iterator[list[Any]]:
        """A pair as a table of points with the first feature down and the second across."""
        first, second = table.axes
        across = self._entries(second)
        yield [_printable(_cell(f"{first.name} (down) and {second.name} (across)"))]
        yield [None, *(_printable(_cell(_words(entry))) for entry in across)]
        for entry in self._entries(first):
            points = [int(table.points[entry.position, other.position]) for other in across]
            yield [_printable(_cell(_words(entry))), *points]


def make_scorecard(
    estimator: TamisClassifier, base_points: Any, base_odds: Any, pdo: Any, good: Any, max_ranges: int | None = None
) -> Scorecard:
    """The scorecard of a fitted classifier of two classes; see `TamisClassifier.to_scorecard`."""
    check_number("base_points", base_points, -np.inf)
    check_number("base_odds", base_odds, 0.0, strict=True)
    check_number("pdo", pdo, 0.0, strict=True)
    if max_ranges is not None:
        check_integer("max_ranges", max_ranges, 1)
    classes = estimator.classes_.tolist()
    if len(classes) != 2:
        raise ValueError(f"a scorecard is for two classes, and y had {len(classes)}: fit one class against the others")
    good = classes[0] if good is None else good
    if good not in classes:
        raise ValueError(f"good={good!r} is not one of the classes: use {classes[0]!r} or {classes[1]!r}")
    tables = model_tables(estimator)
    if tables["cases"]:
        raise ValueError(
            f"the model has {len(tables['cases'])} kept cases, and similarity to a case is no table of points: fit "
            "again with max_instances=0"
        )
    calibrator = _calibrator(estimator)
    if calibrator.failed:
        raise ValueError("the calibration of this model failed, and all rows would have the same points: see its fit")
    sign, per_unit = (1.0 if good == classes[1] else -1.0), float(pdo) / math.log(2.0)
    start = calibrator.slope * tables["intercept"][0] + calibrator.offset
    _check_ranges(tables, abs(per_unit * calibrator.slope), pdo)
    base = base_points + per_unit * (sign * start - math.log(base_odds))
    factor = sign * per_unit * calibrator.slope
    return Scorecard(
        estimator=estimator,
        good=good,
        bad=classes[1] if good == classes[0] else classes[0],
        base_points=float(base_points),
        base_odds=float(base_odds),
        pdo=float(pdo),
        base=round(base),
        features=tuple(cut_curve(feature, factor, max_ranges) for feature in tables["features"]),
        pairs=tuple(cut_surface(tables, pair, factor) for pair in tables["pairs"]),
    )


def _check_ranges(tables: dict[str, Any], factor: float, pdo: Any) -> None:
    """Refuse a scale that would cut a slope into very many ranges."""
    for feature in tables["features"]:
        rise = factor * float(np.max(np.abs(np.subtract(feature["right"], feature["left"])), initial=0.0))
        if rise > MAX_RANGES:
            raise ValueError(
                f"pdo={pdo!r}: {feature['name']!r} has a slope of {rise:.3g} points, and would need a range for each "
                f"of them: use a pdo of at most {0.99 * pdo * MAX_RANGES / rise:.3g}"
            )


def _calibrator(estimator: TamisClassifier) -> Calibrator:
    return getattr(estimator, "calibrator_", Calibrator(1.0))


def _log_odds(estimator: TamisClassifier, X: Any, good: Any) -> np.ndarray:
    """Log-odds (n,) of the class `good`."""
    calibrator, model = _calibrator(estimator), estimator.model_
    odds = calibrator.slope * model.decision(estimator._table(X))[:, 0] + calibrator.offset
    return odds if good == estimator.classes_[1] else -odds


def _described(axis: Axis, entry: Entry) -> tuple[Any, ...]:
    return axis.name, entry.start, entry.end, entry.level


def _words(entry: Entry) -> str:
    """A range or level in words."""
    if entry.level is not None:
        return str(entry.level)
    if math.isinf(entry.start) or math.isinf(entry.end):
        only = math.isinf(entry.start) and math.isinf(entry.end)
        return "any number" if only else f"above {entry.start:g}" if math.isinf(entry.end) else f"up to {entry.end:g}"
    return f"above {entry.start:g} up to {entry.end:g}"


def _cell(value: Any) -> Any:
    """A cell of a spreadsheet: no formulas, no infinite numbers, nothing for nothing."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _printable(value: Any) -> Any:
    """Text without the control characters that Excel does not take."""
    if not isinstance(value, str):
        return value
    return "".join(c if c.isprintable() else " " for c in value)


def _openpyxl() -> Any:
    """The package openpyxl."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError("an Excel file needs openpyxl: pip install openpyxl, or write to a .csv file") from None
    return openpyxl
