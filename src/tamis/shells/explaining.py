"""What a fitted estimator says of itself: decisions split into parts, shapes of features, surfaces of pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.arrays import beside, is_tensor, namespace
from tamis.data.encoding import Nominal, Position
from tamis.data.rows import Rows, sampled
from tamis.data.table import Table, row_labels
from tamis.explain import Explanation, variation
from tamis.models.model import Model
from tamis.models.on_device import device_contributions
from tamis.shells.blockwise import blockwise
from tamis.sources.opening import is_in_blocks

SHAPE_POINTS, SURFACE_POINTS = 200, 40  # of a number in a shape, and in each direction of a surface
VARIATION_ROWS = (50, 2000)  # fewest and most training rows that measure the variation of contributions
VARIATION_VALUES = 1 << 23  # contributions that are added up for it, beyond the fewest rows


class Explaining:
    """Explanations of an estimator that has a `model_`."""

    model_: Model
    features_: np.ndarray
    instance_labels_: np.ndarray
    kernel_variation_: np.ndarray
    n_features_in_: int
    _allow_missing: bool

    @abstractmethod
    def _read(self, X: Any, *, reset: bool) -> Table:
        """Validate rows of the input."""

    @property
    @abstractmethod
    def _outputs(self) -> list[Any]:
        """What the decisions speak for, one entry for each."""

    @property
    @abstractmethod
    def _in_words(self) -> tuple[str, str]:
        """What the estimator does, and what the sign of a decision means, if anything."""

    def _seen(self, X: Any) -> tuple[Model, Table]:
        """The fitted model, and rows that it can decide about."""
        check_is_fitted(self)
        return self.model_, self._read(X, reset=False)

    def explain(self, X: Any) -> Explanation:
        """Split decisions into the contributions of kept instances and kernels; the parts add up exactly.

        Of a Dask array or dataframe the contributions are lazy arrays, of a tensor of torch they are tensors where it
        is.
        """
        contributions = self._contributions(X)
        expansion, names = self.model_.expansion, self.model_.encoder.names
        return Explanation(
            contributions=contributions,
            base_value=expansion.intercept,
            decision=beside(expansion.intercept, contributions) + contributions.sum(axis=(2, 3)),
            rows=_row_names(X, contributions.shape[0]),
            outputs=self._outputs,
            instances=list(self.instance_labels_),
            kernels=expansion.bank.names,
            features=[tuple(names[c] for c in channel.columns) for channel in expansion.bank.channels],
        )

    @blockwise
    def _contributions(self, X: Any) -> np.ndarray:
        if is_tensor(X):
            return device_contributions(self.model_, self._checked_tensor(X))
        model, table = self._seen(X)
        return model.expansion.contributions(model.encode(table))

    def _checked_tensor(self, X: Any) -> Any:
        """A tensor with the columns of the training table."""
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X is a tensor of shape {tuple(X.shape)}, expected (rows, {self.n_features_in_})")
        if bool(namespace(X).any(namespace(X).isinf(X))):
            raise ValueError("X contains infinity: replace it by a large number or a missing cell (NaN)")
        if not self._allow_missing and bool(namespace(X).any(namespace(X).isnan(X))):
            raise ValueError("X contains NaN, and the model was fitted with missing=None: impute first")
        return X

    def shape_function(self, feature: int | str, grid: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """What the kernels on one feature alone add to the decision, as a function of its value.

        What a feature adds together with others is not in it: for a pair see `surface`, for the rest `explain`.

        Parameters
        ----------
        feature : name, or position in the input
        grid : values in the feature's own units; default: 200 points over the training range, or
            the levels of a category

        Returns
        -------
        grid, values : values of shape (len(grid),), or (len(grid), n_classes)
        """
        place = self._shaped_place(feature)
        if not self.model_.own_kernels({place}):
            raise ValueError(
                f"feature {feature!r} acts through kernels on several features only: it has no shape of its own; "
                "use surface for the pairs in pairs_, and explain(X) for the rest"
            )
        grid = _grid(self.model_.encoder.columns[place], grid, SHAPE_POINTS)
        values = self.model_.shape(place, grid)
        return grid, values[:, 0] if values.shape[1] == 1 else values

    def surface(
        self, first: int | str, second: int | str, grids: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels on exactly two features add to the decision, as a function of both values.

        What each of the two adds alone is not in it: see `shape_function`.

        Parameters
        ----------
        first, second : names, or positions in the input, in any order
        grids : values of the first and of the second feature in their own units, None for the default of one or
            both: 40 points over the training range, or the levels of a category

        Returns
        -------
        grid_first, grid_second, values : values of shape (len(grid_first), len(grid_second)), or (..., n_classes)
        """
        places = self._shaped_place(first), self._shaped_place(second)
        if not self.model_.own_kernels(set(places)) or places[0] == places[1]:
            raise ValueError(
                f"features {first!r} and {second!r} have no surface: no kernel stands on exactly these two; use one of "
                f"the pairs_ {self.pairs_}, or explain(X)"
            )
        given = (None, None) if grids is None else grids
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise ValueError(f"grids={grids!r:.60}: give a pair, the values of each of the two features, or None")
        columns = self.model_.encoder.columns
        a, b = (_grid(columns[place], grid, SURFACE_POINTS) for place, grid in zip(places, given, strict=True))
        values = self.model_.surface(places, (a, b))
        return a, b, values[:, :, 0] if values.shape[2] == 1 else values

    @property
    def pairs_(self) -> list[tuple[str, str]]:
        """The pairs of kept features that have a `surface`, the largest share of variation first."""
        check_is_fitted(self)
        model, share = self.model_, dict[tuple[int, ...], float]()
        sizes = np.atleast_2d(self.kernel_variation_).sum(axis=0)
        for channel, size in zip(model.expansion.bank.channels, sizes, strict=True):
            pair = tuple(sorted(set(channel.columns)))
            if len(pair) == 2 and not model.expansion.row_dependent:
                share[pair] = share.get(pair, 0.0) + float(size)
        names = model.encoder.names
        return [(names[a], names[b]) for a, b in sorted(share, key=lambda pair: -share[pair])]

    def _shaped_place(self, feature: int | str) -> int:
        """The place of a kept feature that kernels may give a shape."""
        check_is_fitted(self)
        place = self._kept_place(feature)
        if isinstance(self.model_.encoder.columns[place], Position):
            raise ValueError(f"feature {feature!r} holds positions in precomputed kernels: it has no shape")
        if self.model_.expansion.row_dependent:
            raise ValueError(
                f"feature {feature!r} has no shape of its own: which prototypes decide about a row, and so what the "
                "feature adds, depends on all kept features; use explain(X)"
            )
        return place

    def _kept_place(self, feature: int | str) -> int:
        names = list(self.model_.encoder.names)
        if isinstance(feature, str) and feature in names:
            return names.index(feature)
        kept = self.features_.tolist()
        if not isinstance(feature, str) and feature in kept:
            return kept.index(feature)
        raise ValueError(f"feature {feature!r} is not among the kept ones: {names}")

    @property
    def feature_importance_(self) -> np.ndarray:
        """The paper's FI, one signed percentage per kept feature (the moduli add up to 100)."""
        return self._per_feature("kernel_importance_")

    @property
    def feature_variation_(self) -> np.ndarray:
        """Share of each kept feature in the variation of the decision over training rows, in per cent."""
        return self._per_feature("kernel_variation_")

    def _per_feature(self, name: str) -> np.ndarray:
        check_is_fitted(self)
        channels = self.model_.expansion.bank.channels
        if any(len(set(c.columns)) > 1 for c in channels):
            instead = name if hasattr(self, name) else "kernel_variation_"
            raise AttributeError(
                f"a kernel on several features has no {name.split('_')[1]} per feature: use {instead}, which follows "
                "kernel_names_"
            )
        values = getattr(self, name)
        total = np.zeros((*values.shape[:-1], len(self.features_)))
        np.add.at(total.T, np.array([c.columns[0] for c in channels], dtype=int), values.T)
        return total


def _row_names(X: Any, n: Any) -> Sequence[Any]:
    """Labels of n rows, or their numbers; none where n is not known."""
    if np.isnan(n):
        return []
    return range(n) if is_in_blocks(X) else list(row_labels(X, np.arange(n)))


def measured_variation(model: Model, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision: the model's, or those over some rows."""
    if model.variation is not None:
        return model.variation
    some = sampled(rows, variation_rows(model))
    return variation_shares(model, model.encode(some.table), some.mass)


def variation_rows(model: Model) -> int:
    """How many rows measure the variation: fewer for models of many kernels and instances."""
    expansion = model.expansion
    values = len(expansion.intercept) * len(expansion.instances) * len(expansion.bank)
    return int(np.clip(VARIATION_VALUES // max(1, values), *VARIATION_ROWS))


def variation_shares(model: Model, Z: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of instances and of kernels in the variation of the decision over encoded rows.

    Kernels on the same features share what their sum varies.
    """
    by_instance, by_kernel = model.expansion.split(Z)
    features = [frozenset(channel.columns) for channel in model.expansion.bank.channels]
    return variation(by_instance, mass), variation(by_kernel, mass, features)


def _grid(column: Any, grid: Any, points: int) -> np.ndarray:
    """Values of an encoded column: those given, the levels of a category, or `points` over the training range."""
    if isinstance(column, Nominal):
        return np.array(list(column.levels) if grid is None else list(grid), dtype=object)
    values = np.linspace(column.low, column.high, points) if grid is None else np.asarray(grid, dtype=float)
    if values.ndim != 1:
        raise ValueError(f"grid has shape {values.shape}: give a list of values of the feature")
    return values
