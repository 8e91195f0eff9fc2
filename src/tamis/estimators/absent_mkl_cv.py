"""AbsentMKLClassifierCV: cost and treatment of patterns of absent multiple kernel learning by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from itertools import product
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.data.checks import check_choice, check_values
from tamis.data.rows import Rows
from tamis.estimators.absent_mkl import LIU2015, AbsentMKLClassifier, check_pattern_weight
from tamis.methods.absent_mkl import PROGRAMS
from tamis.models.model import PreparedRows
from tamis.models.selection import HeldOut, Result
from tamis.shells.channelled import Channelled
from tamis.shells.extending import Extending
from tamis.shells.landmarked import Landmarked
from tamis.shells.learning import Factors
from tamis.shells.parameters import parameters
from tamis.shells.searching import SearchClassifier
from tamis.shells.stacked import Answer, Task, told_factors


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
    program: str
    pattern_weight: Any
    min_share: float
    C: float


@stored
@parameters
class AbsentMKLClassifierCV(Extending, Factors, Channelled, Landmarked, SearchClassifier):
    """Absent multiple kernel learning with its cost and its treatment of patterns chosen by cross-validation [Liu2015].

    The kernels of a fold serve all settings, and each goes from the smallest cost up. Scores come from held-out rows
    of the training data only; the score of the winner is the best of many and therefore optimistic: do not report it
    as performance.

    Parameters
    ----------
    Cs : sequence of float
    kernels : as in `AbsentMKLClassifier`, or a dict {name: choice} to choose among
    programs : sequence of str
        Among "amkl", "zero_filling", "mean_margin" and "sum".
    pattern_weights : sequence of None, "share" or float
        For the program "amkl".
    min_shares : sequence of float
        For the program "amkl" with pattern weight None.
    rule : {"best", "one_se"}
        "best": the best score, ties to the smaller cost; "one_se": the smallest cost within one standard error of it.
    tol : float
        Relative duality gap at which a fit stops.
    max_iter : int
        Most rounds.

    Attributes
    ----------
    C_, program_, pattern_weight_, min_share_ : what was chosen
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    patterns_ : (patterns, n_kernels) boolean, the distinct sets of channels that training samples have and that are
        contained in no other
    present_share_ : (n_kernels,) share of the training samples that have each channel

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import AbsentMKLClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    >>> clf = AbsentMKLClassifierCV(Cs=(0.1, 1.0), pattern_weights=(0.5,), cv=2).fit(X[:150, :8], y[:150])
    >>> clf.C_ in (0.1, 1.0), clf.program_ in ("amkl", "sum"), bool(clf.score(X[:, :8], y) > 0.85)
    (True, True, True)
    """

    citation = LIU2015
    _single, _cell_type = AbsentMKLClassifier, Cell

    Cs: Sequence[float] = (0.1, 1.0, 10.0, 100.0)
    programs: Sequence[str] = ("amkl", "sum")
    pattern_weights: Sequence[Any] = (None, 0.5, 1.0)
    min_shares: Sequence[float] = (0.0, 0.05)
    _: KW_ONLY
    tol: float = 1e-3
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("Cs", "programs", "pattern_weights", "min_shares"):
            check_values(name, getattr(self, name))
        for program in self.programs:
            check_choice("programs", program, PROGRAMS)
        for value in self.pattern_weights:
            check_pattern_weight("pattern_weights", value)
        for cell in self._grid(""):
            self._estimator(**{**asdict(cell), "kernels": None})._check_parameters()

    def _grid(self, kernels: str) -> list[Cell]:
        """All cells with the kernels of that name, those of one setting together and the smallest cost first."""
        settings: list[tuple[str, Any, float]] = []
        for program in self.programs:
            if program != "amkl":
                settings.append((program, None, 0.0))
                continue
            for weight, share in product(self.pattern_weights, self.min_shares):
                if weight is None or share == min(self.min_shares):
                    settings.append((program, weight, float(share) if weight is None else 0.0))
        return [Cell(kernels, *setting, C) for setting in dict.fromkeys(settings) for C in sorted(set(self.Cs))]

    def _tried(self, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        out: dict[Cell, HeldOut] = {}
        for name in self._choices:
            out |= self._tried_with(name, train, test)
        return out

    def _tried_with(self, kernels: str, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """What the cells with the kernels of that name do."""
        grid = self._grid(kernels)
        first = self._at(grid[0])
        prepared = first._prepare(train)
        first._check_kernels(prepared)
        tasks = first._tasks(prepared, quick=True)
        known: dict[Any, dict[float, HeldOut]] = {}  # the patterns may make settings the same
        out: dict[Cell, HeldOut] = {}
        for setting in dict.fromkeys(replace(cell, C=grid[0].C) for cell in grid):
            shapes = tuple(self._at(setting)._shape(task) for task in tasks)
            if shapes not in known:
                known[shapes] = self._path(setting, tasks, prepared, test)
            out |= {replace(setting, C=C): held for C, held in known[shapes].items()}
        return out

    def _path(self, setting: Cell, tasks: Sequence[Task], prepared: PreparedRows, test: Rows) -> dict[float, HeldOut]:
        """What one setting does for every cost, each found from the last; the tasks have the setting's own cost."""
        starts: list[Answer | None] = [None] * len(tasks)
        last, out = setting.C, {}
        for C in sorted(set(self.Cs)):
            estimator = self._at(replace(setting, C=C))
            answers = [
                estimator._answer(replace(task, cost=task.cost * (C / setting.C)), _scaled(start, C / last))
                for task, start in zip(tasks, starts, strict=True)
            ]
            objective = sum(a.solution.objective for a in answers) / float(prepared.encoded.rows.weight.sum())
            out[C] = HeldOut.of_model(estimator._assembled(prepared, answers), test, objective)
            starts, last = [*answers], C
        return out

    def _size(self, cell: Cell, result: Result) -> Any:
        return cell.C

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        patterns = {"pattern weight": self.pattern_weight_, "least share of a pattern": self.min_share_}
        own = {"cost C": self.C_, "program": self.program_, **(patterns if self.program_ == "amkl" else {})}
        return own | self._told_choice() | told_factors(self) | super().chosen()


def _scaled(answer: Answer | None, ratio: float) -> Answer | None:
    """An answer as the start for costs `ratio` times as large."""
    return None if answer is None else replace(answer, dual_coef=answer.dual_coef * ratio)
