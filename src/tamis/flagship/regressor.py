"""TamisRegressor: the parts of `TamisClassifier`, for numbers."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import r2_score

from tamis.base.model import FitContext, Fitted
from tamis.base.regressor import KernelRegressor, Units
from tamis.codec import stored
from tamis.errors import warn
from tamis.flagship.blend import Numbers
from tamis.flagship.blending import Blending, Held
from tamis.table.rows import Rows


@stored
class TamisRegressor(Blending, KernelRegressor):
    """A regressor of at most k training cases and m features, tuned by itself, adding up exactly.

    The parts of `TamisClassifier`, fitted by least squares: a prediction is the sum of what features say
    (`shape_function`), what pairs of features say (`surface`) and the pull of similar cases, and equally the sum of
    what the kept cases say (`explain`), in the units of y.

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
    instances_ : training rows with a coefficient, as positions
    instance_labels_ : the same as index labels
    instance_variation_ : shares of the instances in the variation of the decision over training rows, in per cent
    kernel_variation_ : shares of the kernels in it
    feature_variation_ : shares of the features in it, where every kernel stands on one
    n_features_in_ : columns of X
    feature_names_in_ : their names, where X has them

    Notes
    -----
    What is said of contributions, weights and many rows in the notes of `TamisClassifier` holds here too. The
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

    _likelihood = Numbers()

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
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
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
        self.memory_limit = memory_limit
        self.verbose = verbose

    def _units(self, rows: Rows) -> Rows:
        return _units_of(rows).into(rows)

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        model, _, _, attributes = self._blended(rows, context.seed)
        return Fitted(_units_of(rows).back(model), None, attributes)

    def _warn_unheld(self) -> None:
        warn(
            "nothing can be held out, because there is one row, group or fold alone: the members of the blend are "
            "weighed on training rows, which favours those that follow them most closely",
        )

    def _scores(self, held: Held) -> dict[str, float]:
        tests = held.tests
        return {"r2": r2_score(tests.targets, held.decision, sample_weight=tests.mass)}


def _units_of(rows: Rows) -> Units:
    counted = rows.mass > 0
    return Units.of(rows.targets[counted, 0], rows.mass[counted])
