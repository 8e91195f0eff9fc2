"""The common part of `TamisClassifier` and `TamisRegressor`: choose, weigh and join the members of a blend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tamis.base.calibration import Split, Tests, each_fold
from tamis.base.estimator import KernelEstimator, draw_seed
from tamis.base.expansion import CentredExpansion, Coefficients, KernelExpansion
from tamis.base.kernel_space import Encoded
from tamis.base.memory import NUMBER, MemoryEstimate, Size
from tamis.base.model import Groundwork, Model
from tamis.base.search import as_named
from tamis.errors import check_integer, check_values
from tamis.flagship import blend as method
from tamis.kernels.composed import Terms, terms
from tamis.kernels.recipes import Sample, keep_columns, telling_columns
from tamis.optim.driver import Callback, Solution
from tamis.optim.losses import Block, Problem, minimise
from tamis.table.encoding import usual_ranges
from tamis.table.folds import check_cv, folds, positions, resolve_cv
from tamis.table.rows import Rows, merge_rows, some_of_each_class

POOL, FEWEST = 400, 10  # rows from which features and instances are chosen, and of each class among them
MOST, RARE = 5_000, 100  # rows on which all but the last coefficients is chosen, and of each class among them
REPEATS, FEW = 2, 1000  # times that the folds are drawn where there are at most so many rows
VALUES = 3  # copies of kernel values at the peak of a fit
BUDGETS = (2, 5, 10, 20)


class Held(NamedTuple):
    """What a blend says (n, q) of rows that it has not seen, and these rows."""

    decision: np.ndarray
    tests: Tests


class Blending(KernelEstimator):
    """Base of the estimators that blend near-linear, additive, pairwise and case-based models."""

    max_instances: int  # parameters, set by the constructors
    max_features: int
    interactions: int
    blend: Any
    cv: Any

    blend_: np.ndarray

    _likelihood: ClassVar[method.Likelihood]

    @abstractmethod
    def _scores(self, held: Held) -> dict[str, float]:
        """Scores of held-out decisions, better when greater (losses are negated)."""

    @abstractmethod
    def _warn_unheld(self) -> None:
        """Say that nothing could be held out."""

    def _units(self, rows: Rows) -> Rows:
        """The rows with targets in units that the ridges suit."""
        return rows

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer("max_instances", self.max_instances, 1)
        check_integer("max_features", self.max_features, 1)
        check_integer("interactions", self.interactions, 0)
        check_cv(self.cv)
        if not (isinstance(self.blend, str) and self.blend == "cv"):
            _given(self.blend)

    def _memory(self, size: Size) -> MemoryEstimate:
        channels = 2 * min(size.columns, self.max_features) + self.interactions + 1
        values = NUMBER * min(size.rows, MOST) * self.max_instances * channels
        return {**super()._memory(size), "values between rows and kept cases": VALUES * values * size.outputs}

    def _less_memory(self, size: Size, room: float) -> str:
        return "use fewer max_instances and max_features"

    # ------------------------------------------------------------------ fitting

    def _blended(self, given: Rows, seed: int) -> tuple[Model, Rows, Held | None, dict[str, Any]]:
        """The model, the merged rows that it was chosen on, held-out decisions if there are any, and attributes."""
        rows = self._units(_even(given))
        some, merged = self._looked_at(rows, seed)
        held = None
        if isinstance(self.blend, str):
            blend, held, n_splits = self._weighed(given, some, merged, seed, alone=len(rows) > MOST)
        else:
            blend, n_splits = _given(self.blend), 0
        model = self._final(self._fitted(merged, seed, self._log_callback()), blend, rows, merged)
        return model, merged, held, {"blend_": blend, "n_splits_": n_splits}

    def _looked_at(self, rows: Rows, seed: int) -> tuple[Rows, Rows]:
        """The rows that everything is chosen on, as given and merged."""
        some = rows if len(rows) <= MOST else rows.take(some_of_each_class(rows, MOST, RARE, seed))
        return some, merge_rows(some)

    def _weighed(
        self, given: Rows, some: Rows, merged: Rows, seed: int, *, alone: bool
    ) -> tuple[np.ndarray, Held, int]:
        """Weights of the members and ridges, or the best of them `alone`, and what that says of held-out rows."""
        splits = self._splits(given, some, merged, seed)
        n_splits = len(splits)
        if splits:
            parts = each_fold(partial(_held_out, self, seed), splits, self.n_jobs, "tuning")
        else:
            self._warn_unheld()
            parts, splits = [self._fitted(merged, seed).decisions(merged)], [(merged, merged)]
        tests, held = Tests.of(splits), np.concatenate(parts, axis=1)
        surprise = self._likelihood.surprise(held, tests.targets, tests.weight)
        weights = method.blend_weights(surprise, float(merged.mass.sum()))
        if alone:
            weights = np.eye(weights.size)[np.argmax(weights)].reshape(weights.shape)
        return weights, Held(np.tensordot(weights.ravel(), held, 1), tests), n_splits

    def _splits(self, given: Rows, some: Rows, merged: Rows, seed: int) -> list[Split]:
        """Folds of the rows that are looked at, merged."""
        cv = resolve_cv(self.cv)
        if not isinstance(cv, Integral):
            place = np.full(len(given), -1)
            place[some.position] = np.arange(len(some))
            pairs = [(place[a], place[b]) for a, b in positions(cv, given.labels, given.groups, given.table.numbers)]
            return folds(some, [(a[a >= 0], b[b >= 0]) for a, b in pairs], seed)
        again = REPEATS if len(merged) <= FEW else 1
        return [split for r in range(again) for split in folds(some, int(cv), seed + r)]

    def _fitted(self, rows: Rows, seed: int, callback: Callback | None = None) -> Fitted:
        """Choose features, instances and pairs, and fit all members to merged rows."""
        encoded = Encoded.of(
            rows,
            scaling=self.scaling,
            missing=self.missing,
            max_features=self.max_features,
            candidates=POOL,
            seed=seed,
            engine="dense",
            ranges=usual_ranges(rows.table),
            fewest=FEWEST,
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
        members = method.fit_members(self._likelihood, chosen.values(Z, S), chosen.values(S, S), shares, y, weight)
        return Fitted(self._likelihood, encoded.ground(chosen.bank), chosen, solution, members)

    def _columns(self, sample: Sample, pool: np.ndarray, weight: np.ndarray) -> list[int]:
        """The columns to keep: all that tell something, or of more than the budget those that the pool wants."""
        told = telling_columns(sample.Z)
        if len(told) <= self.max_features:
            return told.tolist()
        Z, mismatch = sample.Z[np.ix_(pool, told)], sample.mismatch[told]
        return told[keep_columns(Z, mismatch, sample.targets[pool], weight[pool], self.max_features)].tolist()

    def _final(self, fitted: Fitted, blend: np.ndarray, rows: Rows, merged: Rows) -> Model:
        """The blend of all members, or the best of them fitted to all rows where they are more than were looked at."""
        few = len(rows) <= MOST
        model = fitted.blended(blend) if few else fitted.best(blend, rows, self._log_callback())
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
        The budgets, and scores (a, b): `accuracy`, `roc_auc` and `log_loss` of a classifier, `r2` of a regressor;
        also kept as `path_`.
        """
        check_values("max_instances", max_instances)
        check_values("max_features", max_features)
        other = clone(self)
        other.check_parameters()
        seed = draw_seed(self.random_state)
        table, _, _ = other._read_training(X)
        given = other._rows(table, y, sample_weight, groups)
        rows = other._units(_even(given))
        some, merged = other._looked_at(rows, seed)
        cells = []
        for k in max_instances:
            for m in max_features:
                other.set_params(max_instances=k, max_features=m).check_parameters()
                _, held, _ = other._weighed(given, some, merged, seed, alone=len(rows) > MOST)
                cells.append(other._scores(held))
        shape = len(max_instances), len(max_features)
        path = {"max_instances": np.array(max_instances), "max_features": np.array(max_features)}
        for name in cells[0]:
            path[name] = np.array([as_named(name, cell[name]) for cell in cells]).reshape(shape)
        self.path_ = path
        return path

    def without_search(self) -> Self:
        check_is_fitted(self)
        return clone(self).set_params(blend=self.blend_)

    def summary(self) -> dict[str, Any]:
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
    likelihood : of what the rows are
    ground : the way back to a model
    terms : the channels
    solution : the instances, as positions in the pool, and how they were found
    members : with every ridge
    """

    likelihood: method.Likelihood
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
        member, targets = self.members[m], rows.targets
        channels, instances = member.space.channels, self.instances

        def read(some: slice) -> Block:
            values = self.terms.values(self.ground.encoder.encode(rows.table.take(some)), instances, channels)
            return Block(values.reshape(-1, values.shape[2]), targets[some], rows.weight[some])

        ridge, total = method.RIDGES[r], float(rows.weight.sum())
        problem = Problem(self.likelihood.loss, read, member.space, len(rows), total, ridge)
        solution = minimise(problem, np.column_stack([member.slopes[r], member.free[r]]), callback)
        return self._model(*member.space.table(solution.state[:, :-1], solution.state[:, -1]), solution)

    def _model(self, coef: np.ndarray, intercept: np.ndarray, solution: Solution) -> Model[KernelExpansion]:
        kernels = np.arange(len(self.ground.bank))
        return self.ground.model([Coefficients(self.solution.state, kernels, coef, intercept)], [solution])


def _held_out(estimator: Blending, seed: int, train: Rows, test: Rows) -> np.ndarray:
    return estimator._fitted(train, seed).decisions(test)


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


def _even(rows: Rows) -> Rows:
    """Rows of positive weight; class weights leave the weight of all rows as it is."""
    if not rows.weight.all():
        rows = rows.take(np.flatnonzero(rows.weight > 0))
    return replace(rows, weight=rows.weight * (rows.mass.sum() / rows.weight.sum()))
