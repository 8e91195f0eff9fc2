"""Results of the main job, as data that can be saved, loaded and shown. No drawing, no fitting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tamis.base.calibration import Calibrator
from tamis.base.classifier import ReadableClassifier
from tamis.codec import Unreadable, read, stored, write
from tamis.explain.explanation import Explanation
from tamis.explain.intervals import Interval
from tamis.explain.measures import Stability
from tamis.registry import all_estimators
from tamis.results.text import LOG_ODDS

FOLDED_SHARE = 1.0  # share of variation, in per cent, below which a pair is not shown by itself
LEAST_SHIFT = 0.005  # of a log-odds that does not round to nothing


def _empty() -> np.ndarray:
    return np.empty(0)


@stored
@dataclass(frozen=True)
class Task:
    """The columns and the seed of a job.

    Attributes
    ----------
    target, id_column, group_column, split_column : names of columns, None where there is none (or it is not known)
    seed : of every random choice
    """

    target: str | None
    id_column: str | None
    group_column: str | None
    split_column: str | None
    seed: int


@stored
@dataclass(frozen=True)
class ScoreCurve:
    """The scores of one class against those of the other rows, at most a few hundred points.

    Attributes
    ----------
    label : the class that is positive
    auc, ks : with intervals
    false_positive, true_positive : the ROC curve from (0, 0) to (1, 1)
    threshold, negative, positive : scores, and shares of the negative and positive rows with at most that score
    ks_at : the score at which the two shares are furthest apart
    """

    label: Any
    auc: Interval
    ks: Interval
    false_positive: np.ndarray
    true_positive: np.ndarray
    threshold: np.ndarray
    negative: np.ndarray
    positive: np.ndarray
    ks_at: float


@stored
@dataclass(frozen=True)
class Calibration:
    """The probabilities of one class against how often it is the true one, in groups of rows with similar ones.

    Attributes
    ----------
    label : the class
    predicted : (g,) mean probability in each group, ascending
    observed : (g,) share of the rows of each group that are of the class
    low, high : (g,) ends of 95 per cent intervals; empty where rows belong together, as these are for single rows
    counts : (g,) rows
    brier : mean squared difference of the probability and 1 (a row of the class) or 0
    """

    label: Any
    predicted: np.ndarray
    observed: np.ndarray
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    brier: float


@stored
@dataclass(frozen=True)
class Evaluation:
    """The model on rows that it has not seen.

    Attributes
    ----------
    source : where the rows come from, in words
    n_rows : how many
    confusion : (classes, classes) counts, true classes along the rows, in the order of ``model.classes_``
    accuracy, auc, ks : with 95 per cent intervals; with several classes means of one class against the rest
    majority : the accuracy of always predicting the class that is most frequent in training; NaN if not known
    curves : one for two classes, else one per class
    calibration : the same; none where the model has no probabilities
    """

    source: str
    n_rows: int
    confusion: np.ndarray
    accuracy: Interval
    auc: Interval
    ks: Interval
    majority: float
    curves: tuple[ScoreCurve, ...]
    calibration: tuple[Calibration, ...] = ()


@stored
@dataclass(frozen=True)
class Part:
    """A feature that the model keeps, a pair of features, all kept cases together, or features of one kernel.

    Attributes
    ----------
    name, features : its name, and the features in it (one, unless it is a group)
    kind : "number" or "category"; of an additive model also "pair" or "cases", else "group"
    importance : (outputs,) signed percentages of the kernel weights, or None where there are no such weights
    variation : (outputs,) share in the variation of the decision, in per cent
    direction : over the central 95 per cent of the training values "rises", "falls", "mostly rises", "mostly
        falls" or "bends"; "levels" for categories, "together" for groups
    grid, shape : values of the feature, and what it adds to the decision (len(grid), outputs); where a curve has a
        step, its place is there twice. Of a pair the values of the first feature, and (len(grid), len(across),
        outputs); with kind "pair" ends (m + 1,) of ranges of numbers, or levels, and what the pair adds in the cells,
        the last ones those of missing values where there are any. Empty for larger groups
    by_fold : (folds,) share of variation when other training rows are left out, zero where it was not chosen
    edges, counts : bins (or levels) and training rows in them (classes, bins); empty for groups
    missing : training rows without a value
    across : of a pair, the values of the second feature; empty otherwise
    scale : "linear", "log" or "quantile", of an axis on which the training values spread; on the last all bins are
        equally wide
    at_missing : (outputs,) what a missing value adds; empty where that is not known
    points : (bins,) the only value in each bin, where a number has few different values; empty otherwise
    size : (outputs,) mean modulus of what it adds to the score of a training row; empty where that is not known
    permuted : by how much the log-loss on held-out rows grows when the values of the feature are shuffled; NaN where
        that is not known
    """

    name: str
    features: tuple[str, ...]
    kind: str
    importance: np.ndarray | None
    variation: np.ndarray
    direction: str
    grid: np.ndarray
    shape: np.ndarray
    by_fold: np.ndarray
    edges: np.ndarray = field(default_factory=_empty)
    counts: np.ndarray = field(default_factory=_empty)
    missing: int = 0
    across: np.ndarray = field(default_factory=_empty)
    scale: str = "linear"
    at_missing: np.ndarray = field(default_factory=_empty)
    points: np.ndarray = field(default_factory=_empty)
    size: np.ndarray = field(default_factory=_empty)
    permuted: float = float("nan")

    @property
    def is_surface(self) -> bool:
        """Whether it is a pair of features whose surface is known."""
        return len(self.across) > 0

    @property
    def is_similarity(self) -> bool:
        """Whether it compares rows with kept cases by three or more features at once."""
        return self.kind == "cases" or len(set(self.features)) > 2

    @property
    def is_folded(self) -> bool:
        """Whether it is a pair of too little influence to be drawn."""
        return self.kind == "pair" and float(np.mean(self.variation)) < FOLDED_SHARE


@stored
@dataclass(frozen=True)
class Case:
    """A training case that the model keeps.

    Attributes
    ----------
    place : its position in the model
    label : its id, or its row in the file (the first is 1)
    truth : its class, None where it is not known
    values : its values of the kept features
    importance : (outputs,) signed percentages of the case coefficients, or None where there are none
    variation : (outputs,) share in the variation of the decision, in per cent
    pull : (outputs,) what the case adds to the decision about a row equal to itself
    """

    place: int
    label: Any
    truth: Any
    values: dict[str, Any]
    importance: np.ndarray | None
    variation: np.ndarray
    pull: np.ndarray


@stored
@dataclass(frozen=True)
class ShownRows:
    """Some rows with the predictions of the model, to browse.

    Attributes
    ----------
    labels : (n,) ids, or rows in the file
    values : {feature: (n,) array} of the kept features
    truth : (n,) classes, or None where they are not known
    predicted, decision, probability : (n,), (n, outputs) and (n, classes), the last None without calibration
    """

    labels: np.ndarray
    values: dict[str, np.ndarray]
    truth: np.ndarray | None
    predicted: np.ndarray
    decision: np.ndarray
    probability: np.ndarray | None


@stored
@dataclass(frozen=True)
class Notes:
    """What was done to the data.

    Attributes
    ----------
    source : name of the file
    n_rows, n_columns : as read; `n_features` of the columns were offered to the model
    no_target : rows dropped because they have no class
    dropped : {column: why it was not offered}
    categories : columns that are categories
    missing : {column: rows without a value}
    balance : {class: (training rows, test rows)}
    split : how the test rows were chosen, in words
    groups : number of groups, None without
    repeated : test rows that are equal to a training row in all features; None where that is not known
    warnings : sentences that a reader should see
    """

    source: str
    n_rows: int
    n_columns: int
    n_features: int
    no_target: int
    dropped: dict[str, str]
    categories: tuple[str, ...]
    missing: dict[str, int]
    balance: dict[Any, tuple[int, int]]
    split: str
    groups: int | None
    repeated: int | None
    warnings: tuple[str, ...]


@stored
@dataclass(frozen=True, repr=False)
class Results:
    """A fitted model, its test, and what it keeps.

    Attributes
    ----------
    model : the fitted classifier; with two classes the positive one is ``model.classes_[1]``
    task : columns and seed
    evaluation : on held-out rows
    parts, cases : the kept features and cases, the most influential first
    rows : some held-out rows
    stability : of the choice of features across folds, or None
    notes : on the data
    seconds : {stage: time}
    versions : {package: version}
    """

    model: ReadableClassifier
    task: Task
    evaluation: Evaluation | None
    parts: tuple[Part, ...]
    cases: tuple[Case, ...]
    rows: ShownRows
    stability: Stability | None
    notes: Notes
    seconds: dict[str, float]
    versions: dict[str, str]

    def __repr__(self) -> str:
        kept = f"{len(self.cases)} cases, {len(self.model.features_)} features"
        test = "" if self.evaluation is None else f", accuracy {self.evaluation.accuracy.value:.3f}"
        return f"Results({type(self.model).__name__} for {self.task.target!r}: {kept}{test})"

    def _repr_html_(self) -> str:
        return self.model._repr_html_()

    @property
    def path(self) -> Mapping[str, np.ndarray] | None:
        """Scores over the budgets that were tried, where the method tried several."""
        return getattr(self.model, "path_", None)

    @property
    def outputs(self) -> list[Any]:
        """The classes that high scores favour: the second of two, or all of several."""
        classes = self.model.classes_.tolist()
        return classes[1:] if len(classes) == 2 else classes

    @property
    def score_name(self) -> str:
        """What a score is: the log-odds of the second of two classes where probabilities are its sigmoid.

        With several classes only the difference of two scores of an additive model is one.
        """
        calibrator = getattr(self.model, "calibrator_", None)
        known = isinstance(calibrator, Calibrator) and calibrator.slope == 1.0
        return LOG_ODDS if known and len(self.outputs) == 1 else "score"

    @property
    def weight_shift(self) -> float:
        """What class weights add to a log-odds, and probabilities leave out; 0 for other scores."""
        shift = -self.model.calibrator_.offset if self.score_name == LOG_ODDS else 0.0
        return shift if abs(shift) >= LEAST_SHIFT else 0.0

    @property
    def is_additive(self) -> bool:
        """Whether the model is made of curves, surfaces and cases, and not of kernels."""
        return self.model.model_.is_additive

    @property
    def explanation(self) -> Explanation:
        """Every summand of the decisions about `rows`."""
        if not len(self.rows.labels):
            raise ValueError("there are no rows to explain: use model.explain(X), or test the model on a table")
        return self.model.explain(self.rows.values).renamed(rows=list(self.rows.labels))

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to one file."""
        write(path, "model", self)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Results:
        """Read a file that `save` has written."""
        all_estimators()  # a class is known to the reader once its module is imported
        loaded = read(path, "model")
        if not isinstance(loaded, cls) or not isinstance(loaded.model, ReadableClassifier):
            raise Unreadable(f"{str(path)!r} holds a model without results: load it with tamis.io.load")
        return loaded
