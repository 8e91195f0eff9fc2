"""TamisClassifier: the classifier to start with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.base.calibration import Calibrator, warn_flat, warn_in_sample
from tamis.base.classifier import KernelClassifier
from tamis.base.model import FitContext, Fitted
from tamis.base.search import row_scores
from tamis.codec import stored
from tamis.flagship.blend import Labels
from tamis.flagship.blending import Blending, Held
from tamis.table.rows import Rows


@stored
class TamisClassifier(Blending, KernelClassifier):
    """The classifier to start with: at most k training cases and m features, tuned by itself, adding up exactly.

    A blend of near-linear, additive, pairwise and case-based models on one set of training cases and one set of
    features, each weighted by how well it does on held-out rows. The blend is one table of coefficients,

        f(x) = sum_j sum_c coef[j, c] k_c(x_j, x) + intercept

    over kept cases j and channels c: two kernels for each kept feature, one for each kept pair of features and one for
    the similarity in all kept features. So a prediction is the sum of what features say (`shape_function`), what pairs
    say (`surface`) and the pull of similar cases, and equally the sum of what the kept cases say: see `explain`.

    Parameters
    ----------
    max_instances : int, default=20
        Most training cases kept, for all outputs together.
    max_features : int, default=20
        Most features kept, for all outputs together.
    interactions : int, default=10
        Most pairs of features that may act together beside the similarity of cases.
    blend : "cv" or array of shape (members, ridges), default="cv"
        Weights of the members and their ridges: chosen on held-out rows, or given, as in `blend_` of another fit. Given
        weights take no folds.
    cv : int, splitter or sequence of (train, test) positions, default=5
        Folds on which the members are weighed; None is 5. An integer requests folds that follow the
        values of rows (stratified for classes), drawn twice up to a thousand rows; copies of a row are dealt over them.
        With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X as
        given.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        Numbers far beyond the others (ten times the distance of the 5 and 95 per cent quantiles) count as the nearest
        that are not. "rank" suits columns with long tails.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell has no similarity with any case, and so a value of its own in every shape (in the
        similarity of cases it counts as the mean, one unit aside); "median": filled with the training median (the most
        frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of everything else that is drawn at random. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    features_, kernels_, kernel_names_ : kept features (positions) and channels
    pairs_ : kept pairs of features, by name, those that matter most first
    blend_ : weights of the members (rows: lines, cases, all) and their ridges (columns); one alone beyond five thousand
        rows
    intercept_ : the mean decision over training rows (beyond five thousand, over those that the choices rest on)
    n_splits_ : folds that were used
    path_ : after `path`, scores over budgets
    history_, n_iter_, objective_, status_ : of the choice of cases: the share of the channels' functions that the cases
        so far leave unexplained; beyond five thousand rows, of the last fit to all rows
    classes_ : the class labels, sorted; of two the second is the positive one
    instances_per_class_ : the instances of each output
    instances_ : training rows with a coefficient, as positions
    instance_labels_ : the same as index labels
    instance_variation_ : shares of the instances in the variation of the decision over training rows, in per cent
    kernel_variation_ : shares of the kernels in it
    feature_variation_ : shares of the features in it, where every kernel stands on one
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them

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

    def __init__(
        self,
        max_instances: int = 20,
        max_features: int = 20,
        *,
        interactions: int = 10,
        blend: Any = "cv",
        cv: Any = 5,
        class_weight: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
        self.max_instances = max_instances
        self.max_features = max_features
        self.interactions = interactions
        self.blend = blend
        self.cv = cv
        self.class_weight = class_weight
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        model, merged, held, attributes = self._blended(rows, context.seed)
        if held is None or len(rows.classes) == 2:
            return Fitted(model, _logistic(merged), attributes)
        calibrator = held.tests.calibrator(held.decision)
        warn_flat(calibrator)
        return Fitted(model, calibrator, attributes)

    def _warn_unheld(self) -> None:
        warn_in_sample()

    def _scores(self, held: Held) -> dict[str, float]:
        return row_scores(held.decision, held.tests)[0]


def _logistic(rows: Rows) -> Calibrator:
    """Probabilities of logistic regressions; with two classes what class weights added to the log-odds is taken off."""
    if len(rows.classes) > 2:
        return Calibrator(1.0)
    moved = [np.log(np.sum(w[rows.codes == 1]) / np.sum(w[rows.codes == 0])) for w in (rows.mass, rows.weight)]
    return Calibrator(1.0, float(moved[0] - moved[1]))
