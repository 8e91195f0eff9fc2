"""TamisClassifier: the classifier to start with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Calibrator
from tamis.base.classifier import ReadableClassifier
from tamis.base.model import Fitted
from tamis.codec import stored
from tamis.flagship.estimator import AdditiveEstimator
from tamis.flagship.fit import Outcome
from tamis.flagship.scorecard import Scorecard, make_scorecard
from tamis.table.rows import Rows


@stored
class TamisClassifier(AdditiveEstimator, ReadableClassifier):
    """The classifier to start with: a curve for each of few features, few pairs and few cases, adding up exactly.

        score(x) = intercept + sum_j curve_j(x_j) + sum_(a,b) surface_ab(x_a, x_b) + sum_i pull_i similarity(case_i, x)

    Scores are log-odds: with two classes of the second one, with more the score of each class before a softmax. A
    curve is a table of cells, linear within each of them; it has one value per level of a category and one for a
    missing cell, and is zero on average over the training rows. It is all that a feature does alone: a surface holds
    what two features do beyond their curves, and a case adds to the score of its own class what these leave over, the
    more the more similar a row is. Features, pairs and cases are kept only as far as they pay on held-out rows.

    Parameters
    ----------
    max_features : int or "auto", default=20
        Most features kept. "auto": the smallest number whose held-out loss is within one standard error of the best.
    max_pairs : int, default=10
        Most pairs of features that may act together.
    max_instances : int, default=20
        Most training cases kept, for all classes together.
    cv : int, splitter or sequence of (train, test) positions, default=5
        Folds on which features, pairs and cases are weighed; None is 5. An integer requests folds that follow the
        values of rows and are stratified; copies of a row are dealt over them. With `groups` in `fit`, rows of one
        group stay together. Splitters and positions refer to the rows of X as given.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell has a value of its own in every curve and surface; "median": it is filled with the
        training median (the most frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of everything else that is drawn at random. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one. Here they are threads, and the model does not depend on them.
        With more than 20 000 rows all cores are used.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts; many rows are counted first.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent. Here what the fit kept is logged.

    Attributes
    ----------
    features_ : kept features, as positions
    pairs_ : kept pairs of features, by name, those that matter most first
    instances_ : kept cases, as positions of training rows
    instance_labels_ : the same as index labels
    instances_per_class_ : the cases that add to the score of each output
    intercept_ : the score to which nothing contributes, one for each output
    importance_ : for each kept feature the mean absolute contribution of its curve over training rows (and classes)
    part_variation_ : shares in the variation of the score over training rows, in per cent: of the curves, then of the
        surfaces, then of all cases together if there are any
    feature_variation_ : the share of each feature in it: that of its curve, and half of those of its pairs
    instance_variation_ : the share of all cases, divided among them
    path_ : held-out loss against the number of features, and which features these are; see `path`
    loss_ : mean log-loss on held-out rows of the model without its cases
    n_splits_ : folds that were used
    n_rows_used_ : rows of positive weight that the fit used
    classes_ : the class labels, sorted; of two the second is the positive one
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them

    Notes
    -----
    With two classes probabilities are the sigmoid of the score; what class weights added to the log-odds is taken out,
    so that they move `predict` and not the probabilities. With more classes probabilities are the softmax of the
    scores, and class weights move them too.

    With more than 20 000 rows (unless `cv` is a splitter or positions) columns, pairs, cases and penalties are chosen
    on a sample of up to 50 000, and curves and surfaces are fitted to all rows. They are the finer, the more rows there
    are: see the page on large data. `n_splits_` is 1 then, because one part of the sample judges.

    Only ratios of sample weights matter. Levels that are rare or not in the training rows all count as one level.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import TamisClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = TamisClassifier(max_features=4, max_pairs=2, max_instances=5).fit(X, y)
    >>> len(clf.features_) <= 4, len(clf.pairs_) <= 2, len(clf.instances_) <= 5
    (True, True, True)
    >>> explanation = clf.explain(X.head())
    >>> total = explanation.base_value + explanation.by_part.sum(axis=2)
    >>> bool(abs(total[:, 0] - clf.decision_function(X.head())).max() < 1e-9)
    True
    """

    def __init__(
        self,
        max_features: int | str = 20,
        max_pairs: int = 10,
        max_instances: int = 20,
        *,
        cv: Any = 5,
        class_weight: Any = None,
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
        self.max_features = max_features
        self.max_pairs = max_pairs
        self.max_instances = max_instances
        self.cv = cv
        self.class_weight = class_weight
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def to_scorecard(
        self,
        base_points: float = 600,
        base_odds: float = 50,
        pdo: float = 20,
        good: Any = None,
        max_ranges: int | None = 20,
    ) -> Scorecard:
        """Return the model as tables of whole points: ranges of numbers, levels of categories, and pairs.

        The points of a row are ``base_points + pdo / ln 2 * (log-odds of the good class - ln(base_odds))``, with every
        summand of the model rounded. Unless `good` says otherwise, the good class is the first of the two,
        `classes_[0]`, and so points fall as the score (`decision_function`) rises: more points mean less risk of the
        second class.

        Parameters
        ----------
        base_points : points of a row with the odds `base_odds`
        base_odds : odds of the good class, above 0; 50 means 50 good rows for each other one
        pdo : points that double the odds of the good class, above 0
        good : the class whose odds rise with the points; None: the first of `classes_`
        max_ranges : most ranges of one number. Where whole points would need more, they are multiples of 2, 5, 10 or
            more; None: as many as whole points need

        Returns
        -------
        Scorecard, with `to_frame()`, `save(path)`, `points(X)` and `rounding_loss(X, y)`

        Notes
        -----
        A sloped part of a curve is cut into ranges within which exact points move by about one at most (or by the
        number of which they are multiples); where a cut falls is rounded to few digits, which moves points by at most
        0.05 of that. `rounding_loss` measures what all of this loses. Levels that are not in the training rows
        have no points. Models with kept cases are refused: fit with ``max_instances=0``.
        """
        check_is_fitted(self)
        return make_scorecard(self, base_points, base_odds, pdo, good, max_ranges)

    @property
    def _is_numeric(self) -> bool:
        return False

    def _fitted(self, outcome: Outcome, rows: Rows) -> Fitted:
        return replace(super()._fitted(outcome, rows), calibrator=_probabilities(rows))


def _probabilities(rows: Rows) -> Calibrator:
    """Probabilities of scores that are log-odds; with two classes what class weights added to them is taken off."""
    if len(rows.classes) > 2:
        return Calibrator(1.0)
    moved = [np.log(np.sum(w[rows.codes == 1]) / np.sum(w[rows.codes == 0])) for w in (rows.mass, rows.weight)]
    return Calibrator(1.0, float(moved[0] - moved[1]))
