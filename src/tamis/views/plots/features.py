"""FeaturePathDisplay: accuracy against the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tamis.views.plots.drawing import MINUS, PLUS, Display
from tamis.views.studies.across_folds import take_columns

MOST = 40  # features of a curve


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

    def __init__(
        self, n_features: Sequence[int], accuracy: Sequence[float], *, kept: int | None = None, name: str = ""
    ):
        self.n_features = n_features
        self.accuracy = accuracy
        self.kept = kept
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, X_test: Any, y_test: Any, *, most: int = MOST, ax: Any = None
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
