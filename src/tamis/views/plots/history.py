"""ConvergenceDisplay and KernelWeightDisplay: how a fit came to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tamis.base import kept
from tamis.base.estimator import KernelEstimator
from tamis.optim.driver import History
from tamis.views.plots.drawing import MARKERS, PLAIN, Display, class_style, label, legend_beside, line_style


def histories(estimator: KernelEstimator) -> tuple[list[History], list[Any]]:
    """The histories of all problems that were solved, and what each is about."""
    about = kept.outputs(estimator)
    found = estimator.history_
    found = list(found) if isinstance(found, list | tuple) else [found]
    return found, about if len(found) == len(about) else ["all classes"] * len(found)


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

    def __init__(
        self,
        histories: Sequence[History],
        *,
        names: Sequence[Any],
        tol: float | None = None,
        measure: str = "violation of optimality",
    ):
        self.histories = histories
        self.names = names
        self.tol = tol
        self.measure = measure

    @classmethod
    def from_estimator(cls, estimator: KernelEstimator, *, ax: Any = None) -> ConvergenceDisplay:
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

    def __init__(self, weights: Sequence[np.ndarray], *, kernel_names: Sequence[str], names: Sequence[Any]):
        self.weights = weights
        self.kernel_names = kernel_names
        self.names = names

    @classmethod
    def from_estimator(cls, estimator: KernelEstimator, *, ax: Any = None) -> KernelWeightDisplay:
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
