"""A fitted estimator in files and in notebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any, SupportsIndex

import numpy as np
from sklearn import get_config
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tamis.codec import plain_labels
from tamis.models.model import Model
from tamis.shells.kept import estimator_html

NEEDED = ("_seed", "_categorical", "_allow_missing")  # what reading rows needs besides the learned attributes


class Keeping:
    """What an estimator needs to be kept: the parts of a file, and a picture of itself."""

    get_params: Callable[..., dict[str, Any]]
    model_: Model
    instance_labels_: np.ndarray
    _seed: int

    def to_stored(self) -> dict[str, Any]:
        """What a file holds: parameters, and what was learned except what only `warm_start` needs.

        Of folds of one's own, which speak of rows that no file has, only their number is kept.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if "random_state" in params:
            params["random_state"] = self._seed
        if not isinstance(params.get("cv"), Integral | None):
            params["cv"] = max(2, getattr(self, "n_splits_", 0))
        learned = {name: value for name, value in vars(self).items() if _is_learned(name)}
        return {"params": params, "learned": learned | {"instance_labels_": plain_labels(self.instance_labels_)}}

    @classmethod
    def from_stored(cls, parts: dict[str, Any]) -> Keeping:
        """The fitted estimator of a file."""
        out = cls(**parts["params"])
        if not isinstance(parts["learned"].get("model_"), Model):
            raise ValueError(f"this {cls.__name__} has no model in it")
        for name, value in parts["learned"].items():
            if not _is_learned(name):
                raise ValueError(f"{name!r} is not something that a {cls.__name__} learns")
            setattr(out, name, value)
        _check_model(out.model_)
        return out

    def __getstate__(self) -> dict[str, Any]:
        """What skops writes, which has no more room for labels of any type than a file has."""
        state: Any = super().__getstate__()
        own = {"instance_labels_": plain_labels(self.instance_labels_)} if "instance_labels_" in state else {}
        return state | own

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """What pickle writes: the labels as they are."""
        reduced: Any = super().__reduce_ex__(protocol)
        make, args, state, *rest = reduced
        own = {"instance_labels_": self.instance_labels_} if "instance_labels_" in state else {}
        return (make, args, state | own, *rest)

    @contextmanager
    def _afresh(self) -> Iterator[None]:
        """A context without what an earlier fit has learned; if it fails, that is there again."""
        before = dict(vars(self))
        for name in [name for name in before if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if get_config()["display"] != "diagram":
            raise AttributeError("_repr_html_ is only there with sklearn.set_config(display='diagram')")
        return self._html

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        return bundle | ({"text/html": self._html()} if get_config()["display"] == "diagram" else {})

    def _html(self) -> str:
        """scikit-learn's diagram; once fitted, what was learned comes first."""
        diagram = estimator_html_repr(self)
        if not hasattr(self, "model_"):
            return diagram
        own = estimator_html(self)  # type: ignore[arg-type]  # all that keeps is a KernelEstimator
        return f"{own}<details><summary>Parameters</summary>{diagram}</details>"


def _is_learned(name: str) -> bool:
    """Whether an attribute belongs into a file."""
    return name in NEEDED or (name.endswith("_") and not name.startswith("_"))


def _check_model(model: Model) -> None:
    """Refuse a model whose parts do not fit together: it must be able to decide about its own cases."""
    expansion = model.expansion
    some = expansion.instances[:1]
    if not some.shape[1] == len(model.encoder.columns) == len(model.encoder.names) == len(model.columns):
        raise ValueError("its cases do not have the columns of its encoder")
    shape = (len(some), len(expansion.intercept), len(expansion.instances), len(expansion.bank))
    if expansion.decision(some).shape != shape[:2] or expansion.contributions(some).shape != shape:
        raise ValueError("its coefficients do not fit its cases and kernels")
