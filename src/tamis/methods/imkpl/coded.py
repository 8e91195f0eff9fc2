"""Sparse codes over prototypes, for `IMKPLClassifier` and its search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from tamis.base.model import decide
from tamis.errors import warn
from tamis.explain import measures

MIN_REPRESENTED = 0.5  # share of training samples that prototypes should represent


def training_codes(classifier: Any) -> csr_array:
    """Codes (n_samples, n_prototypes) of the training samples."""
    check_is_fitted(classifier)
    if getattr(classifier, "_codes", None) is None:
        raise AttributeError("the codes of training samples are not kept in files: use encode(X)")
    codes: csr_array = classifier._codes
    return codes


def represented_rows(codes: np.ndarray) -> list[np.ndarray]:
    """For each prototype the rows that it represents by their codes (rows, c), the largest first."""
    return [np.argsort(-column, kind="stable")[: np.count_nonzero(column)] for column in codes.T]


def warn_few_represented(classifier: Any) -> None:
    """Warn where few training samples are represented."""
    share = float(np.mean(np.diff(training_codes(classifier).indptr) > 0))
    if share < MIN_REPRESENTED:
        warn(
            f"{type(classifier).__name__}: prototypes represent {100 * share:.0f}% of the training samples only; under "
            "these kernels most resemble no other: use wider kernels, and look at missing cells and outliers",
        )


def code_measures(classifier: Any, X: Any, y: Any) -> dict[str, float]:
    """The measures of `IMKPLClassifier.prototype_measures` that need rows."""
    check_is_fitted(classifier)
    similarity, expansion = classifier._similarity(X), classifier.model_.expansion
    truth = np.asarray(y)
    out: dict[str, float] = {}
    for name, size in (("", expansion.code_size), ("_at_one", 1)):
        codes = replace(expansion, code_size=size).codes(similarity)
        predicted = classifier.classes_[decide(codes @ expansion.votes.T + classifier.intercept_)]
        out[f"accuracy{name}"] = 100.0 * float(np.mean(predicted == truth))
        out[f"discrimination{name}"], empty = measures.discriminative_representation(
            codes, classifier.prototype_labels_, truth
        )
        if not name:
            out["empty"] = empty
    return out
