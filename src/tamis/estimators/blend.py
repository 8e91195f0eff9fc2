"""TamisClassifier: the classifier to start with."""

from __future__ import annotations

import numpy as np

from tamis.codec import stored
from tamis.data.rows import Rows
from tamis.methods.blend import Labels
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.models.selection import row_scores
from tamis.shells.blending import Blending, Held
from tamis.shells.classifying import KernelClassifier
from tamis.shells.learning import warn_flat, warn_unheld
from tamis.shells.parameters import parameters


@stored
@parameters
class TamisClassifier(Blending, KernelClassifier):
    """The classifier to start with: at most k training cases and m features, tuned by itself, adding up exactly.

    A blend of near-linear, additive, pairwise and case-based models on one set of training cases and one set of
    features, each weighted by how well it does on held-out rows. The blend is one table of coefficients,

        f(x) = sum_j sum_c coef[j, c] k_c(x_j, x) + intercept

    over kept cases j and channels c: two kernels for each kept feature, one for each kept pair of features and one for
    the similarity in all kept features. So a prediction is the sum of what features say (`shape_function`), what pairs
    say (`surface`) and the pull of similar cases, and equally the sum of what the kept cases say: see `explain`.

    Notes
    -----
    Contributions are measured from their means over training rows: what a feature, a pair or a case adds is zero on
    average, and the intercept is the mean decision. With two kept features the similarity of cases is a surface over
    them, with one it is part of its shape.

    With two classes the decision is a log-odds and probabilities are its sigmoid (class weights, which move the
    decision, are taken out); with more they are a softmax of the one-against-rest decisions, its slope fitted to
    held-out rows, and class weights move them too.

    Only ratios of sample weights matter. A row given twice is one more row, against which the ridges are weighed.

    Beyond five thousand rows everything is chosen on a sample of that size, with at least a hundred rows of each class
    that has them, and the coefficients of the best member with its best ridge are then fitted to all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import TamisClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = TamisClassifier(max_instances=5, max_features=4, interactions=2).fit(X, y)
    >>> len(clf.instances_), len(clf.features_), len(clf.pairs_)
    (5, 4, 2)
    >>> explanation = clf.explain(X.head())
    >>> bool(abs(explanation.decision[:, 0] - clf.decision_function(X.head())).max() < 1e-9)
    True
    """

    _likelihood = Labels()

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        model, merged, held = self._blended(rows)
        if held is None or len(rows.classes) == 2:
            return model, _logistic(merged)
        calibrator = held.tests.calibrator(held.decision)
        warn_flat(calibrator)
        return model, calibrator

    def _warn_unheld(self) -> None:
        warn_unheld()

    def _scores(self, held: Held) -> dict[str, float]:
        return row_scores(held.decision, held.tests)[0]


def _logistic(rows: Rows) -> Calibrator:
    """Probabilities of logistic regressions; with two classes what class weights added to the log-odds is taken off."""
    if len(rows.classes) > 2:
        return Calibrator(1.0)
    moved = [np.log(np.sum(w[rows.codes == 1]) / np.sum(w[rows.codes == 0])) for w in (rows.mass, rows.weight)]
    return Calibrator(1.0, float(moved[0] - moved[1]))
