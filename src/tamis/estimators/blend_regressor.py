"""TamisRegressor: the parts of `TamisClassifier`, for numbers."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import r2_score

from tamis.codec import stored
from tamis.estimators.blending import Blending, Held
from tamis.estimators.model import Model
from tamis.estimators.regressing import KernelRegressor, Units
from tamis.estimators.rows import Rows
from tamis.methods.blend import Numbers


@stored
class TamisRegressor(Blending, KernelRegressor):
    """A regressor of at most k training cases and m features, tuned by itself, adding up exactly.

    The parts of `TamisClassifier`, fitted by least squares: a prediction is the sum of what features say
    (`shape_function`), what pairs of features say (`surface`) and the pull of similar cases, and equally the sum of
    what the kept cases say (`explain`), in the units of y.

    Parameters
    ----------
    max_instances : int, default=20
        Most training cases kept.
    max_features : int, default=20
        Most features kept.
    interactions : int, default=10
        Most pairs of features that may act together beside the similarity of cases.
    blend : "cv" or array of shape (members, ridges), default="cv"
        Weights of the members and their ridges: chosen on held-out rows, or given, as in `blend_` of another fit. Given
        weights take no folds.
    cv : int, splitter or sequence of (train, test) positions, default=5
        Folds on which the members are weighed; None is 5. An integer asks for shuffled folds, drawn twice up to a
        thousand rows; with `groups` in `fit`, rows of one group stay together.
    scaling : {"standard", "rank", None}, default="standard"
        Numbers far beyond the others (ten times the distance of the 5 and 95 per cent quantiles) count as the nearest
        that are not. "rank" suits columns with long tails.
    missing : {"absent", "median", None}, default="absent"
        As in `TamisClassifier`.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    random_state : int, RandomState or None, default=None
        For the candidate pool and the folds. None is as good as 0.
    n_jobs : int or None, default=None
        Processes for the folds.
    verbose : int, default=0

    Attributes
    ----------
    instances_, instance_labels_ : kept training rows, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features (positions) and channels
    pairs_ : kept pairs of features, by name, those that matter most first
    blend_ : weights of the members (rows: lines, cases, all) and their ridges (columns); one alone beyond five thousand
        rows
    intercept_ : the mean prediction over training rows (those looked at, see the notes of `TamisClassifier`)
    instance_variation_, kernel_variation_ : shares in the variation of the prediction
    n_splits_ : folds that were used
    path_ : after `path`, scores over budgets
    history_, n_iter_, objective_, status_ : of the choice of cases; beyond five thousand rows, of the last fit
    n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    What is said of contributions, weights, many rows and tables in the notes of `TamisClassifier` holds here too. The
    loss is the squared error: a few values of y that are far beyond the others pull hard, so transform y first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tamis import TamisRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TamisRegressor(max_instances=10, max_features=5, interactions=3).fit(X, y)
    >>> len(model.instances_), len(model.features_), len(model.pairs_)
    (10, 5, 3)
    >>> explanation = model.explain(X.head())
    >>> bool(abs(explanation.decision[:, 0] - model.predict(X.head())).max() < 1e-9)
    True
    """

    def __init__(
        self,
        max_instances: int = 20,
        max_features: int = 20,
        *,
        interactions: int = 10,
        blend: Any = "cv",
        cv: Any = 5,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.max_instances = max_instances
        self.max_features = max_features
        self.interactions = interactions
        self.blend = blend
        self.cv = cv
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _likelihood = Numbers()

    def _units(self, rows: Rows) -> Rows:
        return _units_of(rows).into(rows)

    def _learned(self, rows: Rows) -> Model:
        model, _, _ = self._blended(rows)
        return _units_of(rows).back(model)

    def _scores(self, held: Held) -> dict[str, float]:
        tests = held.tests
        return {"r2": r2_score(tests.targets, held.decision, sample_weight=tests.mass)}


def _units_of(rows: Rows) -> Units:
    counted = rows.mass > 0
    return Units.of(rows.targets[counted, 0], rows.mass[counted])
