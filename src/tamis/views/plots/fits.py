"""How a fit was chosen, how it ended, and how far its scores set two classes apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from tamis.base import explaining
from tamis.base.estimator import ReadableEstimator
from tamis.optim.driver import History
from tamis.results.data import ScoreCurve
from tamis.results.describe import curve_of
from tamis.results.text import LOWER_IS_BETTER, SCORES
from tamis.views.plots.drawing import (
    COLOURS,
    MARKERS,
    MINUS,
    PLAIN,
    PLUS,
    SCALE,
    Display,
    cell_texts,
    class_style,
    label,
    legend_beside,
    line_style,
)
from tamis.views.studies import take_columns

MAX_NUMBERED_CELLS = 12  # rows and columns of a heat map whose cells hold numbers
MAX_PATH_FEATURES = 40  # features of a curve


@dataclass(eq=False, repr=False)
class BudgetPathDisplay(Display):
    """Heat map of a score over budgets of cases and of features, the chosen budgets framed.

    Parameters
    ----------
    path : mapping with the budgets `max_instances` (a,) and `max_features` (b,), and scores (a, b)
    score : which of the scores
    chosen : (max_instances, max_features) or None

    Attributes
    ----------
    figure_, ax_ : figure and axes
    image_, chosen_mark_, colorbar_ : heat map, frame of the chosen cell, colour bar
    """

    path: Mapping[str, np.ndarray]
    _: KW_ONLY
    score: str
    chosen: tuple[int, int] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, score: str | None = None, ax: Any = None) -> BudgetPathDisplay:
        """Draw the path of an estimator; `score` None is the one that decided, or accuracy, or R2."""
        cls._check_matplotlib()
        path = getattr(estimator, "path_", None)
        if path is None or "max_instances" not in path:
            what = "no path_" if path is None else "a path_ over the number of features only"
            raise ValueError(f"{type(estimator).__name__} has {what}: fit a search such as EM2NOLCClassifierCV")
        usual = "accuracy" if "accuracy" in estimator.path_ else "r2"
        score = getattr(estimator, "scoring_", usual) if score is None else score
        names = ("max_instances", "max_features")
        found = [getattr(estimator, f"{name}_", getattr(estimator, name)) for name in names]
        on_grid = all(value in estimator.path_[name] for name, value in zip(names, found, strict=True))
        chosen = (found[0], found[1]) if on_grid else None
        return cls(estimator.path_, score=score, chosen=chosen).plot(ax)

    def plot(self, ax: Any = None) -> BudgetPathDisplay:
        """Draw."""
        cases, features = self.path["max_instances"].tolist(), self.path["max_features"].tolist()
        scores = [name for name in self.path if not name.startswith("max_")]
        if self.score not in scores:
            raise ValueError(f"score={self.score!r} is not in the path: use one of {scores}")
        values = self.path[self.score]
        size = (2.2 + 0.42 * max(6, len(features)), 1.4 + 0.32 * max(6, len(cases)))
        axis = self._panels(ax, (1, 1), size)[0, 0]
        lower = self.score in LOWER_IS_BETTER
        self.image_ = axis.imshow(values, origin="lower", cmap=SCALE + "_r" if lower else SCALE, aspect="auto")
        if max(values.shape) <= MAX_NUMBERED_CELLS:
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            bright = (values - low) / ((high - low) or 1.0)
            cell_texts(axis, values, ".3f", (1.0 - bright if lower else bright) < 0.5)
        axis.set_xticks(range(len(features)), features)
        axis.set_yticks(range(len(cases)), cases)
        axis.set(xlabel="most features", ylabel="most cases")
        self.colorbar_ = axis.figure.colorbar(self.image_, ax=axis, label=SCORES.get(self.score, self.score))
        if self.chosen is not None:
            x, y = features.index(self.chosen[1]), cases.index(self.chosen[0])
            corners = np.array([[-0.5, 0.5, 0.5, -0.5, -0.5], [-0.5, -0.5, 0.5, 0.5, -0.5]])
            (self.chosen_mark_,) = axis.plot(x + corners[0], y + corners[1], color=MINUS, linewidth=3, clip_on=False)
            axis.set_title("framed: the chosen budgets", fontsize="small")
        return self


@dataclass(eq=False, repr=False)
class FeaturePathDisplay(Display):
    """Accuracy on held-out rows of models that are offered the best one, two, ... features of a selection.

    Parameters
    ----------
    n_features : (k,) numbers of features on offer
    accuracy : (k,) accuracy with them
    kept : how many features the estimator kept, or None
    name : of the estimator

    Attributes
    ----------
    figure_, ax_ : figure and axes
    line_, kept_mark_ : the curve, and a line at the number that was kept
    """

    n_features: Sequence[int]
    accuracy: Sequence[float]
    _: KW_ONLY
    kept: int | None = None
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, X_test: Any, y_test: Any, *, most: int = MAX_PATH_FEATURES, ax: Any = None
    ) -> FeaturePathDisplay:
        """Fit the same kind of model to the first k columns of `feature_path_`, and score it on test rows.

        Where the estimator has `lambda2` and `max_features`, these models have neither: what is on offer is used,
        unless the weights of the kernels leave it out.

        Parameters
        ----------
        estimator : fitted to X and y, with a `feature_path_`
        X, y : the training rows
        X_test, y_test : other rows
        most : largest number of features
        ax : axes
        """
        cls._check_matplotlib()
        if not hasattr(estimator, "feature_path_"):
            raise ValueError(f"{type(estimator).__name__} has no feature_path_: fit a selector such as L0MKLClassifier")
        path = estimator.feature_path_[:most]
        if not len(path):
            raise ValueError(f"{type(estimator).__name__} selected no feature: there is nothing to draw")
        if not estimator.model_.expansion.bank.one_to_one or estimator.categorical_features != "auto":
            raise ValueError(
                "a curve over features needs one kernel per feature and categorical_features='auto': columns are taken "
                "out one by one, and positions would no longer hold"
            )
        model = _free(estimator)
        accuracy = []
        for k in range(1, len(path) + 1):
            model.fit(take_columns(X, path[:k]), y)
            accuracy.append(float(model.score(take_columns(X_test, path[:k]), y_test)))
        sizes = range(1, len(path) + 1)
        return cls(sizes, accuracy, kept=len(estimator.features_), name=type(estimator).__name__).plot(ax)

    def plot(self, ax: Any = None) -> FeaturePathDisplay:
        """Draw."""
        axis = self._panels(ax, (1, 1), (6.0, 3.6)).flat[0]
        (self.line_,) = axis.plot(self.n_features, self.accuracy, marker="o", markersize=4, color=PLUS, label=self.name)
        self.kept_mark_ = None
        if self.kept is not None:
            self.kept_mark_ = axis.axvline(self.kept, color=MINUS, linestyle="--", label=f"{self.kept} kept")
        axis.set(xlabel="number of features on offer, best first", ylabel="accuracy on test rows")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend(loc="lower right")
        return self


def _free(estimator: Any) -> Any:
    """An unfitted copy that neither calibrates nor selects more than it must."""
    model = estimator.without_search()
    freed = {"calibration": None, "lambda2": 0.0, "max_features": None}
    return model.set_params(**{name: value for name, value in freed.items() if name in model.get_params(deep=False)})


def histories(estimator: ReadableEstimator) -> tuple[list[History], list[Any]]:
    """The histories of all problems that were solved, and what each is about."""
    about = explaining.outputs(estimator)
    found = estimator.history_
    found = list(found) if isinstance(found, list | tuple) else [found]
    return found, about if len(found) == len(about) else ["all classes"] * len(found)


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Objective and violation of the optimality conditions over the rounds of a fit.

    Parameters
    ----------
    histories : one per problem that was solved
    names : what each is about
    tol : the violation at which a run stops, or None
    measure : what the violation is, where the method has a word of its own for it

    Attributes
    ----------
    figure_, ax_ : figure, and the axes of the objective and of the violation
    objective_lines_, violation_lines_ : lists of lines, one per problem
    """

    histories: Sequence[History]
    _: KW_ONLY
    names: Sequence[Any]
    tol: float | None = None
    measure: str = "violation of optimality"

    @classmethod
    def from_estimator(cls, estimator: ReadableEstimator, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw the fit of a classifier; several classes are several lines."""
        cls._check_matplotlib()
        found, names = histories(estimator)
        own = {"measure": estimator.violation_means} if hasattr(estimator, "violation_means") else {}
        return cls(found, names=names, tol=getattr(estimator, "tol", None), **own).plot(ax)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw; `ax` may be two axes."""
        above, below = self._panels(ax, (2, 1), (6.0, 4.6), sharex=True).ravel()
        self.objective_lines_, self.violation_lines_ = [], []
        for k, history in enumerate(self.histories):
            rounds, style = np.arange(len(history)), {**class_style(k), "marker": MARKERS[k % len(MARKERS)]}
            self.objective_lines_ += above.plot(rounds, history.objective, markersize=4, **style)
            self.violation_lines_ += below.plot(rounds, history.violation, markersize=4, **style)
        violation = np.concatenate([h.violation for h in self.histories])
        positive = violation[violation > 0]
        if len(positive) == len(violation):
            below.set_yscale("log")
        elif len(positive):  # a logarithm has no place for zero
            below.set_yscale("symlog", linthresh=float(positive.min()))
        if self.tol:
            below.axhline(self.tol, color=PLAIN, linestyle=":")
            below.annotate("tol", (1.0, self.tol), xycoords=("axes fraction", "data"), xytext=(3, 0),
                           textcoords="offset points", va="center", fontsize="small", color=PLAIN)  # fmt: skip
        above.set_ylabel("objective")
        below.set(xlabel="round (0 is the start)", ylabel=self.measure)
        below.xaxis.get_major_locator().set_params(integer=True)
        if len(self.histories) > 1:
            legend_beside(above, self.objective_lines_, self.names, "class")
        return self


@dataclass(eq=False, repr=False)
class KernelWeightDisplay(Display):
    """Weights of the kept kernels over the rounds of a fit, a panel per problem that was solved.

    Parameters
    ----------
    weights : list of (iterates, kernels), one per problem
    kernel_names : names of the kernels
    names : what each problem is about

    Attributes
    ----------
    figure_, ax_ : figure and axes, one per problem
    lines_ : list of lists of lines; within a panel the largest final weight first, and only kernels that
        had a weight there
    """

    weights: Sequence[np.ndarray]
    _: KW_ONLY
    kernel_names: Sequence[str]
    names: Sequence[Any]

    @classmethod
    def from_estimator(cls, estimator: ReadableEstimator, *, ax: Any = None) -> KernelWeightDisplay:
        """Draw the fit of a classifier."""
        cls._check_matplotlib()
        found, names = histories(estimator)
        weights = [history.weights for history in found if history.weights is not None]
        if len(weights) < len(found):
            raise ValueError(f"{type(estimator).__name__} does not record the kernel weights of its rounds")
        return cls(weights, kernel_names=list(estimator.kernel_names_), names=names).plot(ax)

    def plot(self, ax: Any = None) -> KernelWeightDisplay:
        """Draw; `ax` may be as many axes as there are problems."""
        n, most = len(self.weights), max(int(np.any(w != 0, axis=0).sum()) for w in self.weights)
        axes = self._panels(ax, (n, 1), (7.0, n * max(2.6, 0.9 + 0.19 * most)), sharex=True).ravel()
        self.lines_: list[list[Any]] = []
        for axis, weights, name in zip(axes, self.weights, self.names, strict=True):
            used = np.flatnonzero(np.any(weights != 0, axis=0))
            used = used[np.argsort(-np.abs(weights[-1, used]), kind="stable")]
            lines = [axis.plot(weights[:, k], markersize=4, **line_style(int(k)))[0] for k in used]
            axis.axhline(0.0, color="black", linewidth=0.8)
            axis.set_ylabel("kernel weight" if n == 1 else f"kernel weight\nclass {label(name, 18)}")
            legend_beside(axis, lines, [self.kernel_names[int(k)] for k in used], "kernel, by final weight")
            self.lines_.append(lines)
        axes[-1].set_xlabel("round (0 is the start)")
        axes[-1].xaxis.get_major_locator().set_params(integer=True)
        return self


@dataclass(eq=False, repr=False)
class KSCurveDisplay(Display):
    """The distributions of the scores of two classes, and the Kolmogorov-Smirnov distance between them.

    Parameters
    ----------
    curve : ScoreCurve

    Attributes
    ----------
    figure_, ax_ : figure and axes
    negative_line_, positive_line_, gap_line_ : lines; the last one marks the distance
    """

    curve: ScoreCurve

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, pos_label: Any = None, ax: Any = None) -> KSCurveDisplay:
        """Draw the decision values of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier with `decision_function`
        X, y : rows, preferably rows that the classifier has not seen, and their classes
        pos_label : the class to set against all others; None: ``classes_[1]`` of two
        ax : axes
        """
        cls._check_matplotlib()
        cls._check_classifier(estimator)
        classes = estimator.classes_.tolist()
        if pos_label is None and len(classes) == 2:
            pos_label = classes[1]
        if pos_label not in classes:
            raise ValueError(f"pos_label={pos_label!r} is not a class: use one of {classes}")
        score = np.asarray(estimator.decision_function(X), dtype=float)
        if score.ndim == 2:
            score = score[:, classes.index(pos_label)]
        elif pos_label == classes[0]:
            score = -score
        return cls.from_predictions(y, score, pos_label=pos_label, ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_score: Any, *, pos_label: Any = None, ax: Any = None) -> KSCurveDisplay:
        """Draw given scores.

        Parameters
        ----------
        y_true : (n,) classes
        y_score : (n,) numbers that should be high for `pos_label`
        pos_label : None: the greater of two classes
        ax : axes
        """
        cls._check_matplotlib()
        y_true, y_score = np.asarray(y_true), np.asarray(y_score, dtype=float)
        labels = np.unique(y_true).tolist()
        if pos_label is None:
            if len(labels) != 2:
                raise ValueError(f"y_true has the classes {labels}: name the positive one by pos_label")
            pos_label = labels[1]
        if pos_label not in labels or len(labels) < 2:
            raise ValueError(f"y_true has the classes {labels}: rows of pos_label={pos_label!r} and others are needed")
        return cls(curve_of(y_true == pos_label, y_score, pos_label)).plot(ax)

    def plot(self, ax: Any = None) -> KSCurveDisplay:
        """Draw."""
        axis = self._panels(ax, (1, 1), (5.5, 4.0))[0, 0]
        found = self.curve
        x, at = np.r_[found.threshold[0], found.threshold], int(np.argmin(np.abs(found.threshold - found.ks_at)))
        lines = []
        for share, name, dash, colour in (
            (found.negative, "other rows", "--", COLOURS[1]),
            (found.positive, f"rows of class {label(found.label)}", "-", COLOURS[0]),
        ):
            lines += axis.step(x, np.r_[0.0, share], where="post", linestyle=dash, color=colour, label=name)
        self.negative_line_, self.positive_line_ = lines
        ends = [found.negative[at], found.positive[at]]
        words = f"KS {found.ks.value:.2f} (95% interval {found.ks.low:.2f} to {found.ks.high:.2f})"
        (self.gap_line_,) = axis.plot([found.ks_at] * 2, ends, color="black", marker="_", markersize=9, label=words)
        axis.set(xlabel="decision value", ylabel="share of rows with at most this value", ylim=(-0.02, 1.02))
        axis.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), frameon=False, fontsize="small", borderaxespad=0.0)
        return self
