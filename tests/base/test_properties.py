"""Whatever the table: a fitted model whose explanation adds up, or one clear sentence.

``TAMIS_EXAMPLES=200 pytest tests/base/test_properties.py`` tries so many tables for each estimator, others each time;
without it the tables are few and always the same.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import sklearn.utils
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning

import awkward_tables
import tamis
from awkward_tables import (
    ARRAYS,
    COLUMNS,
    FRAMES,
    NUMBERS,
    REFUSED,
    SPARSE,
    TARGETS,
    WEIGHTS,
    Case,
    contained,
    make_columns,
)
from tamis import all_estimators
from tamis.table.table import read_block

EXAMPLES = int(os.environ.get("TAMIS_EXAMPLES", 0))
LIMIT = 20.0  # seconds of a fit, which takes a tenth of one
SAID = {UserWarning, ConvergenceWarning, DataConversionWarning}  # warnings that are documented
CLEAR = [Path(tamis.__file__).parent, Path(sklearn.utils.__file__).parent]  # who may raise an error
FRAGMENTS = (  # of sentences that only those understand who know the code
    "ambiguous",
    "array element",
    "broadcast",
    "cannot convert float",
    "could not convert",
    "dtype('",
    "empty sequence",
    "has no attribute",
    "infs or nans",
    "inhomogeneous",
    "not supported between",
    "out of bounds",
    "reduction",
    "singular",
    "truth value",
    "unhashable",
)
QUICK = {
    "alphas": (0.01,),
    "bandwidths": (1.0,),
    "calibration": 2,
    "code_sizes": (None,),
    "Cs": (1.0,),
    "cv": 2,
    "max_pairs": 1,
    "kappas": (0.1,),
    "lambda2s": (0.1, 0.4),
    "max_features": 3,
    "max_instances": 4,
    "max_iter": 5,
    "pattern_weight": "share",
    "pattern_weights": ("share",),
    "programs": ("amkl",),
    "prototype_sizes": (2,),
    "rounds": 1,
    "thetas": (10.0,),
}


def quick(name, **changes):
    cls = all_estimators()[name]
    return cls(**{k: v for k, v in {**QUICK, **changes}.items() if k in cls().get_params()})


def examples(n):
    return settings(
        max_examples=EXAMPLES or n,
        derandomize=not EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate, *([Phase.shrink] if EXAMPLES else [])],
        suppress_health_check=list(HealthCheck),
    )


def is_regressor(name):
    return name in all_estimators("regressor")


every = pytest.mark.parametrize("name", list(all_estimators()))

# ---------------------------------------------------------------------- what is promised


@contextmanager
def only_documented_warnings():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert not [str(w.message) for w in seen if w.category not in SAID]


def fit(clf, X, y, weight=None):
    """The fitted model, or None where a clear sentence says why there is none."""
    start = time.perf_counter()
    try:
        return clf.fit(X, y) if weight is None else clf.fit(X, y, sample_weight=weight)
    except (ValueError, TypeError) as error:
        check_sentence(error)
    finally:
        assert time.perf_counter() - start < LIMIT
    return None


def check_sentence(error):
    """An error that was meant, in words of the user; a TypeError only where scikit-learn's checks want one."""
    text, last = str(error), Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert any(home in last.parents for home in CLEAR), (last, text)
    assert not any(fragment in text.lower() for fragment in FRAGMENTS), text
    if isinstance(error, TypeError):
        assert "dense data is required" in text or "must be a string or a number" in text, text


def decisions(clf, X):
    found = clf.decision_function(X) if hasattr(clf, "classes_") else clf.predict(X)
    return np.reshape(found, (len(found), -1))


def check_model(clf, X, names):
    """Decisions are finite, sums of what `explain` says, and within the budgets."""
    decision, found = decisions(clf, X), clf.explain(X)
    parts = np.asarray(found.by_part)
    summands = np.asarray(getattr(found, "contributions", parts)).reshape(*decision.shape, -1)
    size = np.abs(summands).sum(axis=2) + np.abs(found.base_value)
    assert np.isfinite(decision).all() and np.isfinite(parts).all()
    assert np.all(np.abs(parts.sum(axis=2) + found.base_value - decision) <= 1e-9 * np.max(size, axis=0))
    assert {name for group in found.parts for name in group} <= set(names)
    assert len(found.instances) == len(clf.instances_) == found.by_instance.shape[2]
    if hasattr(clf, "classes_"):
        assert set(clf.predict(X).tolist()) <= set(clf.classes_.tolist())
        p = clf.predict_proba(X)
        assert np.all((p >= 0) & (p <= 1)) and np.allclose(p.sum(axis=1), 1)
    if decision.shape[1] == 1:
        budgets = clf.get_params()
        assert len(clf.instances_) <= (budgets.get("max_instances") or np.inf)
        assert len(clf.features_) <= (budgets.get("max_features") or np.inf)
    learned = [v for v in vars(clf).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    assert all(np.isfinite(v).all() for v in learned)


# ---------------------------------------------------------------------- tables

fine = [kind for kind in COLUMNS if kind not in REFUSED]
sizes = st.one_of(st.integers(2, 40), st.integers(0, 6))
kinds = st.lists(st.sampled_from(fine), min_size=1, max_size=6).map(tuple)
odd_kinds = st.one_of(kinds, kinds, st.lists(st.sampled_from(list(COLUMNS)), max_size=6).map(tuple))
seeds = st.integers(0, 2**20)


def mostly(usual, choices):
    return st.one_of(st.just(usual), st.just(usual), st.sampled_from(list(choices)))


def cases(targets, usual):
    return st.builds(
        Case,
        sizes,
        odd_kinds,
        st.sampled_from([*FRAMES, *ARRAYS]),
        mostly(usual, targets),
        mostly("none", WEIGHTS),
        seeds,
    )


choices = st.fixed_dictionaries(
    {
        "scaling": mostly("standard", ("rank", None)),
        "missing": mostly("absent", ("median", None)),
        "class_weight": mostly(None, ("balanced",)),
    }
)


@every
def test_a_model_adds_up_or_a_sentence_says_why_there_is_none(name):
    @examples(8)
    @given(cases(NUMBERS, "normal") if is_regressor(name) else cases(TARGETS, "two"), choices, seeds)
    def holds(case, params, other):
        X, y = case.X, case.y(is_regressor(name))
        with only_documented_warnings():
            clf = fit(quick(name, **params), X, y, case.w)
            if clf is None:
                return
            check_model(clf, X, case.columns)
            if params["missing"] is not None:
                columns = awkward_tables.new_rows(case)
                check_model(clf, contained(columns, 6, case.container), columns)
            containers = [*FRAMES, *ARRAYS]
            same = contained(case.columns, case.n, containers[other % len(containers)])
            again = fit(clone(clf), same, y, case.w)
            np.testing.assert_allclose(decisions(again, same), decisions(clf, X), rtol=1e-9, atol=1e-9)

    holds()


@pytest.mark.parametrize("kind", list(COLUMNS))
def test_every_kind_of_column_is_read_or_refused(kind):
    for container in (*FRAMES, *ARRAYS):
        case = Case(12, ("normal", kind), container, "two", "none", 0)
        with only_documented_warnings():
            clf = fit(quick("EM2NOLCClassifier"), case.X, case.y(False))
            assert (clf is None) == (kind in (*REFUSED, "largest")), container
            if clf is not None:
                check_model(clf, case.X, case.columns)


@pytest.mark.parametrize("kind", list(TARGETS))
def test_every_kind_of_target_is_learned_or_refused(kind):
    case = Case(12, ("normal", "text"), "pandas", kind, "none", 0)
    with only_documented_warnings():
        clf = fit(quick("LinearSVMADMM"), case.X, case.y(False))
    assert (clf is None) == (kind in awkward_tables.NO_CLASSES)
    if clf is not None:
        check_model(clf, case.X, case.columns)


@pytest.mark.parametrize("kind", list(NUMBERS))
def test_every_kind_of_number_is_learned_or_refused(kind):
    case = Case(12, ("normal", "text"), "pandas", kind, "none", 0)
    with only_documented_warnings():
        clf = fit(quick("TamisRegressor"), case.X, case.y(True))
    assert (clf is None) == (kind in awkward_tables.NO_NUMBERS)
    if clf is not None:
        check_model(clf, case.X, case.columns)


@pytest.mark.parametrize("kind", list(WEIGHTS))
@pytest.mark.parametrize("name", ["TamisClassifier", "SimpleMKLClassifier"])
def test_every_kind_of_weight_is_taken_or_refused(kind, name):
    case = Case(12, ("normal", "text"), "pandas", "two", kind, 0)
    with only_documented_warnings():
        clf = fit(quick(name), case.X, case.y(False), case.w)
    refused = kind in awkward_tables.NO_WEIGHTS or (
        kind in ("huge", "tiny") and name != "TamisClassifier"
    )  # C times a weight
    assert (clf is None) == refused
    if clf is not None:
        check_model(clf, case.X, case.columns)


@examples(60)
@given(st.integers(1, 12), kinds, seeds)
def test_the_same_data_are_the_same_table_in_every_container(n, kinds, seed):
    def labels(table):
        return {j: v.tolist() for j, v in table.labels.items() if any(cell is not None for cell in v)}

    columns = make_columns(kinds, n, seed)
    first, _ = read_block(contained(columns, n, "pandas"), None, None, True)
    for container in (*FRAMES, *ARRAYS):
        table, named = read_block(contained(columns, n, container), None, None, True)
        assert named == (container in FRAMES)
        np.testing.assert_array_equal(table.numbers, first.numbers)
        assert labels(table) == labels(first)


# ---------------------------------------------------------------------- what must not matter


def learnable(n=40, seed=3):
    """Numbers with few digits, and what follows from two of them."""
    X = np.round(np.random.default_rng(seed).normal(size=(n, 3)) * 64) / 64
    score = X[:, 1] + 0.5 * X[:, 2] ** 2 - 0.5
    return X, score


def learned(name, X, score, labels=(0, 1), **changes):
    y = score if is_regressor(name) else np.array(labels)[(score > 0).astype(int)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        return quick(name, calibration=None, max_iter=30, **changes).fit(X, y)


DECIMAL = ["TamisClassifier", "TamisRegressor"]  # which cut between values at numbers of few decimal digits


@every
def test_units_names_and_order_do_not_matter(name):
    X, score = learnable()
    expected = decisions(learned(name, X, score), X)
    size = np.max(np.abs(expected))
    near = 1e-3 * size if name in DECIMAL else 0.0
    for factor in (2.0**400, 2.0**-400, 2.0**1000):
        scaled = X * np.array([1.0, factor, 1.0])
        np.testing.assert_allclose(decisions(learned(name, scaled, score), scaled), expected, rtol=0, atol=near)
    np.testing.assert_allclose(decisions(learned(name, X + 1024.0, score), X + 1024.0), expected, atol=1e-6 * size)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(decisions(learned(name, X[order], score[order]), X), expected, atol=1e-9 * size)
    if not is_regressor(name):
        renamed = learned(name, X, score, labels=("healthy", "ill"))
        np.testing.assert_array_equal(decisions(renamed, X), expected)


BY_FOLDS = [name for name in all_estimators() if name.endswith("CV") or name.startswith("Tamis")]  # which follow values
RANDOM = ["ChannelBaselineClassifier", "LassoADMM", "KernelGLVQClassifier", "PrototypeSelectionClassifier"]


@pytest.mark.parametrize("name", [name for name in all_estimators() if name not in (*BY_FOLDS, *RANDOM)])
def test_the_order_of_columns_does_not_matter(name):
    X, score = learnable()
    expected = decisions(learned(name, X, score), X)
    turned = X[:, [2, 0, 1]]
    found = decisions(learned(name, turned, score), turned)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.max(np.abs(expected)))


@every
@pytest.mark.parametrize("factor", [1e-150, 1e150])
def test_what_can_be_learned_is_learned_at_any_scale(name, factor):
    X, _ = learnable()
    scaled, score = X * factor, X[:, 1]
    clf = learned(name, scaled, score)
    assert clf.score(scaled, score if is_regressor(name) else score > 0) > 0.75


@pytest.mark.parametrize("container", list(SPARSE))
def test_sparse_matrices_are_refused_with_what_to_do(container):
    X, score = learnable()
    clf = learned("EM2NOLCClassifier", X, score)
    sparse = SPARSE[container](X)
    for use in (clf.predict, clf.decision_function, clf.explain, lambda X: clone(clf).fit(X, score > 0)):
        with pytest.raises(TypeError, match=r"sparse .* use X.toarray\(\)"):
            use(sparse)
