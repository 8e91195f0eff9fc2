"""TamisRegressor: the parts of `TamisClassifier`, for numbers."""

from __future__ import annotations

from typing import Any

from tamis.base.regressor import ReadableRegressor
from tamis.codec import stored
from tamis.flagship.estimator import AdditiveEstimator


@stored
class TamisRegressor(AdditiveEstimator, ReadableRegressor):
    """The regressor to start with: a curve for each of few features, few pairs and few cases, adding up exactly.

    The parts of `TamisClassifier`, fitted by least squares. Predictions and contributions are in the units of y: a
    prediction is the intercept plus what features (`curve`), pairs of features (`surface`) and similar cases add. What
    a case adds is the more, the more similar a row is, and the further the number of the case is from the mean.

    Parameters
    ----------
    max_features : int or "auto", default=20
        Most features kept. "auto": the smallest number whose held-out loss is within one standard error of the best.
    max_pairs : int, default=10
        Most pairs of features that may act together.
    max_instances : int, default=20
        Most training cases kept.
    cv : int, splitter or sequence of (train, test) positions, default=5
        Folds on which features, pairs and cases are weighed; None is 5. An integer requests folds that follow the
        values of rows; copies of a row are dealt over them. With `groups` in `fit`, rows of one group stay together.
        Splitters and positions refer to the rows of X as given.
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
    intercept_ : the prediction to which nothing contributes
    importance_ : for each kept feature the mean absolute contribution of its curve over training rows
    part_variation_ : shares in the variation of the prediction over training rows, in per cent: of the curves, then of
        the surfaces, then of all cases together if there are any
    feature_variation_ : the share of each feature in it: that of its curve, and half of those of its pairs
    instance_variation_ : the share of all cases, divided among them
    path_ : held-out loss against the number of features, and which features these are; see `path`
    loss_ : mean squared error on held-out rows of the model without its cases
    n_splits_ : folds that were used
    n_rows_used_ : rows of positive weight that the fit used
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them

    Notes
    -----
    What the notes of `TamisClassifier` say of many rows, weights and unseen levels holds here too. The loss is the
    squared error: a few values of y far from all others pull hard, so transform y first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tamis import TamisRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TamisRegressor(max_features=5, max_pairs=3, max_instances=10).fit(X, y)
    >>> len(model.features_) <= 5, len(model.pairs_) <= 3, len(model.instances_) <= 10
    (True, True, True)
    >>> explanation = model.explain(X.head())
    >>> total = explanation.base_value + explanation.by_part.sum(axis=2)
    >>> bool(abs(total[:, 0] - model.predict(X.head())).max() < 1e-9)
    True
    """

    def __init__(
        self,
        max_features: int | str = 20,
        max_pairs: int = 10,
        max_instances: int = 20,
        *,
        cv: Any = 5,
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
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    @property
    def _is_numeric(self) -> bool:
        return True
