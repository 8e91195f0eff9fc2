"""TamisClassifier: the classifier to start with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tamis.codec import stored
from tamis.estimators.base import KernelClassifier, draw_seed
from tamis.estimators.calibration import Calibrator
from tamis.estimators.checks import check_cv, check_integer, check_values
from tamis.estimators.direct import warn_unheld
from tamis.estimators.encoding import usual_ranges
from tamis.estimators.keys import lowest, row_keys, sampling_keys
from tamis.estimators.model import Encoded, Groundwork, Model
from tamis.estimators.rows import Rows, coding, counted_folds, folds, merge_rows
from tamis.estimators.selection import LOSSES, Split, Tests, each_fold, row_scores
from tamis.expansion import CentredExpansion, Coefficients, KernelExpansion
from tamis.kernels.grouping import keep_columns, telling_columns
from tamis.kernels.recipes import Sample
from tamis.kernels.terms import Terms, terms
from tamis.methods import blend as method
from tamis.optim.driver import Callback, Solution
from tamis.optim.logistic_blocks import Block, Problem, minimise

POOL = 400  # rows from which features and instances are chosen
MOST = 5_000  # rows on which everything but the last coefficients is chosen
RARE = 100  # rows of each class that are among them if there are so many
REPEATS, FEW = 2, 1000  # times that the folds are drawn where there are at most so many rows
BUDGETS = (2, 5, 10, 20)
EXACT = 2.0**31  # no weight from here on is a count


@stored
class TamisClassifier(KernelClassifier):
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
        Most training cases kept, for all classes together.
    max_features : int, default=20
        Most features kept, for all classes together.
    interactions : int, default=10
        Most pairs of features that may act together beside the similarity of cases.
    blend : "cv" or array of shape (members, ridges), default="cv"
        Weights of the members and their ridges: chosen on held-out rows, or given, as in `blend_` of another fit. Given
        weights take no folds.
    cv : int, splitter or sequence of (train, test) positions, default=5
        Folds on which the members are weighed; None is 5. An integer asks for shuffled stratified folds, drawn twice up
        to a thousand rows; with `groups` in `fit`, rows of one group stay together. Splitters and positions speak of
        the rows of X as given.
    scaling : {"standard", "rank", None}, default="standard"
        Numbers far beyond the others (ten times the distance of the 5 and 95 per cent quantiles) count as the nearest
        that are not. "rank" suits columns with long tails.
    missing : {"absent", "median", None}, default="absent"
        "absent": a missing cell has no similarity with any case, and so a value of its own in every shape (in the
        similarity of cases it counts as the mean, one unit aside); "median": filled with the training median (the most
        frequent category); None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto" takes text, boolean and categorical columns; name codes that come as numbers.
    class_weight : dict, "balanced" or None, default=None
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
    intercept_ : the mean decision over training rows (those looked at, see Notes)
    instance_variation_, kernel_variation_ : shares in the variation of the decision
    n_splits_ : folds that were used
    path_ : after `path`, scores over budgets
    history_, n_iter_, objective_, status_ : of the choice of cases: the share of the channels' functions that the cases
        so far leave unexplained; beyond five thousand rows, of the last fit to all rows
    classes_, n_features_in_
    feature_names_in_ : where X has column names

    Notes
    -----
    Contributions are measured from their means over training rows: what a feature, a pair or a case adds is zero on
    average, and the intercept is the mean decision. With two kept features the similarity of cases is a surface over
    them, with one it is part of its shape.

    With two classes the decision is a log-odds and probabilities are its sigmoid (class weights, which move the
    decision, are taken out); with more they are a softmax of the one-against-rest decisions, its slope fitted to
    held-out rows, and class weights move them too.

    Sample weights that are whole numbers count rows: up to five thousand rows a weight of two and a row given twice are
    the same. Of other weights only the ratios matter.

    From 8192 rows in one call on, decisions are read from tables, within 1e-6 of the sum of the coefficients' moduli;
    `explain` is exact.

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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("max_instances", self.max_instances, 1)
        check_integer("max_features", self.max_features, 1)
        check_integer("interactions", self.interactions, 0)
        check_cv(self.cv)
        if not (isinstance(self.blend, str) and self.blend == "cv"):
            _given(self.blend)

    # ------------------------------------------------------------------ fitting

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        self.__dict__.pop("path_", None)
        given, rows = rows, _counted(rows)
        some, merged = self._looked_at(rows)
        held = None
        if isinstance(self.blend, str):
            self.blend_, held, tests = self._weighed(given, some, merged, alone=len(rows) > MOST)
        else:
            self.blend_, self.n_splits_ = _given(self.blend), 0
        model = self._final(self._fitted(merged, self._progress()), rows, merged)
        if held is None or len(rows.classes) == 2:
            return model, _logistic(merged)
        return model, tests.calibrator(held)

    def _looked_at(self, rows: Rows) -> tuple[Rows, Rows]:
        """The rows that everything is chosen on, as given and merged."""
        some = rows if len(rows) <= MOST else rows.take(_sample(rows, self._seed))
        return some, merge_rows(some)

    def _weighed(self, given: Rows, some: Rows, merged: Rows, *, alone: bool) -> tuple[np.ndarray, np.ndarray, Tests]:
        """Weights of the members and ridges, or the best of them `alone`, and what that says of held-out rows."""
        splits = self._splits(given, some, merged)
        self.n_splits_ = len(splits)
        if splits:
            parts = each_fold(partial(_held_out, self), splits, self.n_jobs, "tuning")
        else:
            warn_unheld()
            parts, splits = [self._fitted(merged).decisions(merged)], [(merged, merged)]
        tests, held = Tests.of(splits), np.concatenate(parts, axis=1)
        weights = method.blend_weights(held, tests.targets, tests.weight, float(merged.mass.sum()))
        if alone:
            weights = np.eye(weights.size)[np.argmax(weights)].reshape(weights.shape)
        return weights, np.tensordot(weights.ravel(), held, 1), tests

    def _splits(self, given: Rows, some: Rows, merged: Rows) -> list[Split]:
        """Folds of the rows that are looked at; each training part is merged."""
        cv = 5 if self.cv is None else self.cv
        if not isinstance(cv, Integral):
            place = np.full(len(given), -1)
            place[some.position] = np.arange(len(some))
            pairs = [(place[a], place[b]) for a, b in _positions(cv, given)]
            return folds(some, [(a[a >= 0], b[b >= 0]) for a, b in pairs], self._seed)
        again = REPEATS if len(merged) <= FEW else 1
        return [split for r in range(again) for split in counted_folds(merged, int(cv), self._seed + r)]

    def _fitted(self, rows: Rows, callback: Callback | None = None) -> Fitted:
        """Choose features, instances and pairs, and fit all members to merged rows."""
        encoded = Encoded.of(
            rows,
            scaling=self.scaling,
            missing=self.missing,
            max_features=self.max_features,
            candidates=POOL,
            seed=self._seed,
            engine="dense",
            ranges=usual_ranges(rows.table),
        )
        sample, pool = encoded.sample, encoded.candidates
        Z, y, weight = sample.Z, sample.targets, sample.sample_weight
        columns = self._columns(sample, pool, weight)
        alone = terms(sample, columns)
        kinds = np.r_[alone.kinds["shape"], alone.kinds["cases"]]
        among = alone.values(Z[pool], Z[pool], kinds)
        share = method.shares_of(alone.kinds, len(alone.bank))[list(method.MEMBERS).index("all"), kinds]
        solution = method.choose_instances(among, y[pool], weight[pool], share, self.max_instances, callback)
        S, shapes = Z[pool[solution.state]], alone.kinds["shape"]
        found = method.screen_pairs(
            alone.values(Z, S, shapes), alone.values(S, S, shapes), y, weight, self.interactions
        )
        chosen = terms(sample, columns, [(columns[a], columns[b]) for a, b in found])
        shares = method.shares_of(chosen.kinds, len(chosen.bank))
        members = method.fit_members(chosen.values(Z, S), chosen.values(S, S), shares, y, weight)
        return Fitted(encoded.ground(chosen.bank), chosen, solution, members)

    def _columns(self, sample: Sample, pool: np.ndarray, weight: np.ndarray) -> list[int]:
        """The columns to keep: all that tell something, or of more than the budget those that the pool wants."""
        told = telling_columns(sample.Z)
        if len(told) <= self.max_features:
            return told.tolist()
        Z, mismatch = sample.Z[np.ix_(pool, told)], sample.mismatch[told]
        return told[keep_columns(Z, mismatch, sample.targets[pool], weight[pool], self.max_features)].tolist()

    def _final(self, fitted: Fitted, rows: Rows, merged: Rows) -> Model:
        """The blend of all members, or the best of them fitted to all rows where they are more than were looked at."""
        few = len(rows) <= MOST
        model = fitted.blended(self.blend_) if few else fitted.best(self.blend_, rows, self._progress())
        centred = CentredExpansion.around(model.expansion, model.encode(merged.table), merged.mass)
        return replace(model, expansion=centred)

    # ------------------------------------------------------------------ budgets

    def path(
        self,
        X: Any,
        y: Any,
        max_instances: Sequence[int] = BUDGETS,
        max_features: Sequence[int] = BUDGETS,
        *,
        sample_weight: Any = None,
        groups: Any = None,
    ) -> dict[str, np.ndarray]:
        """Scores on held-out rows over budgets, each blended anew on the folds of `cv`; the fit stays as it is.

        Parameters
        ----------
        X, y, sample_weight, groups : rows as in `fit`
        max_instances, max_features : budgets (a,) and (b,)

        Returns
        -------
        The budgets, and `accuracy`, `roc_auc` and `log_loss` (a, b); also kept as `path_`.
        """
        check_values("max_instances", max_instances)
        check_values("max_features", max_features)
        other = clone(self)
        other._check_parameters()
        other._seed = draw_seed(self.random_state)
        given = other._rows(X, y, sample_weight, groups)
        rows = _counted(given)
        some, merged = other._looked_at(rows)
        cells = []
        for k in max_instances:
            for m in max_features:
                other.set_params(max_instances=k, max_features=m)._check_parameters()
                _, held, tests = other._weighed(given, some, merged, alone=len(rows) > MOST)
                cells.append(row_scores(held, tests)[0])
        shape = len(max_instances), len(max_features)
        path = {"max_instances": np.array(max_instances), "max_features": np.array(max_features)}
        for name in cells[0]:
            sign = -1.0 if name in LOSSES else 1.0
            path[name] = np.array([sign * cell[name] for cell in cells]).reshape(shape)
        self.path_ = path
        return path

    def fixed(self) -> TamisClassifier:
        check_is_fitted(self)
        return clone(self).set_params(blend=self.blend_)

    def chosen(self) -> dict[str, Any]:
        check_is_fitted(self)
        parts = zip(method.MEMBERS, self.blend_.sum(axis=1), strict=True)
        return {
            "most cases": self.max_instances,
            "most features": self.max_features,
            "most pairs": self.interactions,
            "blend": ", ".join(f"{name} {100 * weight:.0f}%" for name, weight in parts),
        }


@dataclass(frozen=True)
class Fitted:
    """All members on their common instances: what is left is to weigh them.

    Attributes
    ----------
    ground : the way back to a model
    terms : the channels
    solution : the instances, as positions in the pool, and how they were found
    members : with every ridge
    """

    ground: Groundwork
    terms: Terms
    solution: Solution[np.ndarray]
    members: list[method.Member]

    @property
    def instances(self) -> np.ndarray:
        """Encoded (k, d)."""
        return self.ground.pool.Z[self.solution.state]

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (cells, q, k, L) and intercepts (cells, q)."""
        parts = [member.tables for member in self.members]
        return np.concatenate([coef for coef, _ in parts]), np.concatenate([free for _, free in parts])

    def decisions(self, rows: Rows) -> np.ndarray:
        """Decisions (cells, n, q) of all cells about some rows."""
        values = self.terms.values(self.ground.encoder.encode(rows.table), self.instances)
        return method.decisions(values, *self.tables)

    def blended(self, weights: np.ndarray) -> Model[KernelExpansion]:
        """The mean of the members and ridges with some weights (members, ridges)."""
        coef, intercept = (np.tensordot(weights.ravel(), part, 1) for part in self.tables)
        return self._model(coef, intercept, self.solution)

    def best(self, weights: np.ndarray, rows: Rows, callback: Callback | None) -> Model[KernelExpansion]:
        """The member and ridge of the largest weight, fitted to all rows."""
        m, r = np.unravel_index(np.argmax(weights), weights.shape)
        member, targets = self.members[m], coding(len(rows.classes))
        channels, instances = member.space.channels, self.instances

        def read(some: slice) -> Block:
            values = self.terms.values(self.ground.encoder.encode(rows.table.take(some)), instances, channels)
            return Block(values.reshape(-1, values.shape[2]), targets[rows.codes[some]], rows.weight[some])

        problem = Problem(read, member.space, len(rows), float(rows.weight.sum()), method.RIDGES[r])
        solution = minimise(problem, np.column_stack([member.slopes[r], member.free[r]]), callback)
        return self._model(*member.space.table(solution.state[:, :-1], solution.state[:, -1]), solution)

    def _model(self, coef: np.ndarray, intercept: np.ndarray, solution: Solution) -> Model[KernelExpansion]:
        kernels = np.arange(len(self.ground.bank))
        return self.ground.model([Coefficients(self.solution.state, kernels, coef, intercept)], [solution])


def _held_out(estimator: TamisClassifier, train: Rows, test: Rows) -> np.ndarray:
    return estimator._fitted(train).decisions(test)


def _given(blend: Any) -> np.ndarray:
    """Weights of members and ridges from a parameter, adding up to one."""
    shape = len(method.MEMBERS), len(method.RIDGES)
    try:
        weights = np.asarray(blend, dtype=float)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != shape or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
        raise ValueError(f"blend={blend!r} must be 'cv' or {shape} weights of at least 0, such as blend_ of a fit")
    return weights / weights.sum()


def _counted(rows: Rows) -> Rows:
    """Rows of positive weight; where all sample weights are whole numbers they count rows, else only ratios matter.

    Of class weights only the ratios matter: they leave the weight of all rows as it is.
    """
    if not rows.weight.all():
        rows = rows.take(np.flatnonzero(rows.weight > 0))
    counts = rows.mass * rows.unit
    if counts.max() < EXACT and np.allclose(counts, np.round(counts), rtol=0.0, atol=1e-9):
        rows = replace(rows, mass=np.round(counts), unit=1.0)
    return replace(rows, weight=rows.weight * (rows.mass.sum() / rows.weight.sum()))


def _positions(cv: Any, rows: Rows) -> list[tuple[np.ndarray, np.ndarray]]:
    """The training and test positions of a splitter or of a sequence of pairs."""
    if hasattr(cv, "split"):
        return list(cv.split(rows.table.numbers, rows.classes[rows.codes], rows.groups))
    pairs = []
    for entry in cv:
        try:
            train, test = (np.asarray(part, dtype=int) for part in entry)
        except (TypeError, ValueError):
            raise ValueError(f"cv holds {entry!r}, which is no pair (train, test) of positions of rows") from None
        both = np.concatenate([train, test])
        if len(both) and not 0 <= both.min() <= both.max() < len(rows):
            raise ValueError(f"cv names the rows {both.min()} to {both.max()}, but X has the rows 0 to {len(rows) - 1}")
        pairs.append((train, test))
    return pairs


def _logistic(rows: Rows) -> Calibrator:
    """Probabilities of logistic regressions; with two classes what class weights added to the log-odds is taken off."""
    if len(rows.classes) > 2:
        return Calibrator(1.0)
    moved = [np.log(np.sum(w[rows.codes == 1]) / np.sum(w[rows.codes == 0])) for w in (rows.mass, rows.weight)]
    return Calibrator(1.0, float(moved[0] - moved[1]))


def _sample(rows: Rows, seed: int) -> np.ndarray:
    """Some rows of each class, in proportion but not too few, whatever the order of the rows."""
    keys = sampling_keys(row_keys(rows.table, seed), rows.codes)
    chosen = []
    for c in range(len(rows.classes)):
        members = np.flatnonzero(rows.codes == c)
        size = max(RARE, round(MOST * len(members) / len(rows)))
        chosen.append(members[lowest(keys[members], size)])
    return np.sort(np.concatenate(chosen))
