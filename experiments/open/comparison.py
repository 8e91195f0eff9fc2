"""The open benchmark as a comparison: its tables, methods and splits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from experiments.cells import Cell
from experiments.open.methods import METHODS, trial
from experiments.open.tables import CAIML_FOLDS, names_of, problem_of, read
from experiments.paper import Paper
from experiments.problem import Problem

SPLITS = 3
FOLDS = {"splits": SPLITS, "caiml": CAIML_FOLDS}
MEASURES = {
    "accuracy": "Accuracy, %",
    "log_loss": "Log-loss",
    "auc": "AUC, %",
    "ece": "Calibration error",
    "n_features": "Features",
    "n_terms": "Terms",
    "seconds": "CPU s, fit",
    "predict_seconds": "CPU s, prediction",
    "bytes": "Model, bytes",
}


def comparison(
    folder: Path | None, folds: str = "splits", splits: int | None = None, limit: float | None = None
) -> Paper:
    """Return the comparison on a folder of tables, or on those of the papers.

    Parameters
    ----------
    folder : of the tables; None for those of the papers
    folds : "splits" or "caiml"
    splits : number of splits; None for all
    limit : seconds after which a fit counts as failed
    """
    names = names_of(folder)
    if folds == "caiml":
        names = [name for name in names if read(folder, name)[1] is not None]
    return Paper(
        name="open" if folder is not None else "open-papers",
        title="The open benchmark",
        citation="",
        datasets=dict.fromkeys(names, ""),
        absent=(),
        methods=METHODS,
        main="tamis@20",
        splits={("honest", "full"): splits or FOLDS[folds]},
        problem=partial(_problem, folder),
        measures=MEASURES,
        settings=partial(_settings, folds),
        trial=partial(trial, limit=limit),
        reason=_never,
    )


def _problem(folder: Path | None, cell: Cell) -> Problem:
    return problem_of(folder, cell.dataset, cell.setting, cell.split)


def _settings(folds: str, protocol: str, size: str, dataset: str) -> list[str]:
    return [folds]


def _never(name: str) -> str:
    """Why a table is missing: it never is, since only those that are there are listed."""
    return ""
