"""A fitted estimator as the parts of a file, for `tamis.codec`, pickle and skops."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from tamis.base.model import Model
from tamis.codec import plain_labels

if TYPE_CHECKING:
    from tamis.base.estimator import KernelEstimator


def parts_of(estimator: KernelEstimator) -> dict[str, Any]:
    """What a file holds: parameters and learned attributes.

    Of positions of rows in `cv`, which no file has, only their number is kept.
    """
    check_is_fitted(estimator)
    params = estimator.get_params(deep=False)
    params["random_state"] = estimator.seed_
    if not isinstance(params.get("cv"), Integral | None):
        params["cv"] = max(2, getattr(estimator, "n_splits_", 0))
    learned = {name: value for name, value in vars(estimator).items() if is_learned(name)}
    return {"params": params, "learned": learned | {"instance_labels_": plain_labels(estimator.instance_labels_)}}


def estimator_of(cls: type[KernelEstimator], parts: dict[str, Any]) -> KernelEstimator:
    """The fitted estimator of a file."""
    out = cls(**parts["params"])
    if not isinstance(parts["learned"].get("model_"), Model):
        raise ValueError(f"this {cls.__name__} has no model in it")
    for name, value in parts["learned"].items():
        if not is_learned(name):
            raise ValueError(f"{name!r} is not something that a {cls.__name__} learns")
        setattr(out, name, value)
    _check_model(out.model_)
    return out


def plain_state(state: Any) -> Any:
    """The state that skops writes: labels as a file holds them."""
    own = {"instance_labels_": plain_labels(state["instance_labels_"])} if "instance_labels_" in state else {}
    return state | own


def with_labels(reduced: Any, attributes: dict[str, Any]) -> tuple[Any, ...]:
    """What pickle writes: labels as they are."""
    make, args, state, *rest = reduced
    own = {name: attributes[name] for name in ("instance_labels_",) if name in state}
    return (make, args, state | own, *rest)


def is_learned(name: str) -> bool:
    """Whether an attribute belongs into a file."""
    return name.endswith("_") and not name.startswith("_")


def _check_model(model: Model) -> None:
    """Refuse a model whose parts do not fit together: it must be able to decide about its own cases."""
    expansion = model.expansion
    some = expansion.instances[:1]
    if not some.shape[1] == len(model.encoder.columns) == len(model.encoder.names) == len(model.columns):
        raise ValueError("its cases do not have the columns of its encoder")
    shape = (len(some), len(expansion.intercept), len(expansion.instances), len(expansion.bank))
    if expansion.decision(some).shape != shape[:2] or expansion.contributions(some).shape != shape:
        raise ValueError("its coefficients do not fit its cases and kernels")
