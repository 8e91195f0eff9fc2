"""All estimators, for whatever works on every one of them."""

from __future__ import annotations

from sklearn.base import ClassifierMixin, RegressorMixin

import tamis
from tamis.base.estimator import ReadableEstimator

KINDS: dict[str | None, type] = {None: object, "classifier": ClassifierMixin, "regressor": RegressorMixin}


def all_estimators(type_filter: str | None = None) -> dict[str, type[ReadableEstimator]]:
    """Return {name: class} of every public estimator, or of "classifier" or "regressor" alone."""
    if type_filter not in KINDS:
        raise ValueError(f"type_filter={type_filter!r} is unknown: use 'classifier', 'regressor' or None for all")
    names = [name for name in tamis.__all__ if name[0].isupper()]
    found = {name: cls for name in names if isinstance(cls := getattr(tamis, name), type)}
    found = dict(sorted(found.items(), key=lambda entry: not entry[0].startswith("Tamis")))  # the flagship first
    kind = KINDS[type_filter]
    return {name: cls for name, cls in found.items() if issubclass(cls, ReadableEstimator) and issubclass(cls, kind)}
