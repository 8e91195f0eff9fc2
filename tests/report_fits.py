"""Small fits to make pages of, each made once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tamis.results import Results
from tamis.workflow import Job, run

QUICK = {"bandwidths": (1.0,), "alphas": (0.01,), "cv": 3}
WARNING = "Mind the gap between training rows and test rows."
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>window.hacked = 1</script>",
    "\"' onmouseover='window.hacked = 2' x=\"",
    "{{ 7 * 7 }} {% raw %}",
    "<img src=x onerror=window.hacked=3>",
    "<b>bold</b> <i>x</i> <a href='javascript:window.hacked=4'>y</a><br>z",
    "$\\alpha$ %{x} &lt;&amp;",
    "\u2028line\u2029 \u202eright to left \u00e9\u4e2d\U0001f600",
    "__proto__",
)


@cache
def small_fit() -> Results:
    """Two classes, five numbers, a path, stability, a warning."""
    rng = np.random.default_rng(0)
    n = 120
    table = {f"x{j}": rng.normal(size=n) for j in range(5)}
    score = np.sin(2 * table["x0"]) + table["x1"] + 0.2 * rng.normal(size=n)
    table["y"] = np.where(score > 0, "high", "low")
    results = run(table, Job("y", "EM2NOLCClassifierCV", max_instances=4, max_features=3, options=QUICK), "small.csv")
    return replace(results, notes=replace(results.notes, warnings=(WARNING,)))


@cache
def iris_fit() -> Results:
    """Three classes, whose cases and features differ."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    table = {name: iris.data[:, j] for j, name in enumerate(iris.feature_names)}
    table["species"] = iris.target_names[iris.target].astype(object)
    return run(table, Job("species", "EM2NOLCClassifierCV", max_instances=3, max_features=2, options=QUICK), "iris.csv")


def mixed_table(n: int = 160) -> dict[str, np.ndarray]:
    """Numbers, a category and a flag, all with gaps."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=n), rng.normal(size=n)
    c = np.array(["red", "green", "blue"], dtype=object)[rng.integers(3, size=n)]
    d = rng.integers(3, size=n).astype(float)
    score = np.where(c == "red", 1.0, -0.5) + np.sin(2 * a) + b + 0.5 * (d == 1)
    a[rng.random(n) < 0.15], c[rng.random(n) < 0.4], d[rng.random(n) < 0.1] = np.nan, None, np.nan
    y = np.where(score > 0.7, "yes", "no").astype(object)
    return {"a": a, "b": b, "colour": c, "code": d, "y": y}


@cache
def mixed_fit() -> Results:
    """Kernels of every kind, on one feature and on groups, with missing cells and categories."""
    from tamis import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid

    kernels = [
        ("a", Gaussian(0.9), "a"),
        ("b rough", Laplacian(1.3), "b"),
        ("colour", Categorical(), "colour"),
        ("a and b", Gaussian(1.4), ("a", "b")),
        ("a and colour", Gaussian(1.2, (0.0, 2.5)), ("a", "colour")),
        ("a, b rough", Laplacian(2.0), ("a", "b")),
        ("a * b", Polynomial(2, 1.0), ("a", "b")),
        ("b linear", Polynomial(1, 0.0), "b"),
        ("b s", Sigmoid(0.5, 0.1), "b"),
        ("colour and code", Categorical(), ("colour", "code")),
    ]
    options = {"kernels": kernels, "coupling": "full", "bandwidth": 1.0, "alpha": 0.01}
    job = Job("y", method="EM2NOLCClassifier", max_instances=6, max_features=8, categorical=("code",), options=options)
    return run(mixed_table(), job, "mixed.csv")


@cache
def ranked_fit(missing: str) -> Results:
    """Ranks in the place of values, and class weights, which set probabilities apart from scores."""
    options = {"scaling": "rank", "missing": missing, "bandwidth": 1.0, "alpha": 0.01}
    job = Job(
        "y", method="EM2NOLCClassifier", max_instances=4, max_features=4, class_weight="balanced", options=options
    )
    return run(mixed_table(), job, "ranked.csv")


@cache
def hostile_fit() -> Results:
    """Features, categories, classes, ids, target and file with names that a page could trip over."""
    rng = np.random.default_rng(3)
    n = 120
    table = {name: rng.normal(size=n) for name in HOSTILE}
    levels = np.array(HOSTILE[:4], dtype=object)[rng.integers(4, size=n)]
    table[HOSTILE[0]] = levels
    score = np.sum([np.sin(2 * table[name]) for name in HOSTILE[1:]], axis=0) + (levels == HOSTILE[1])
    table["<i>target</i></title>"] = np.where(score > 0, HOSTILE[4], HOSTILE[1]).astype(object)
    table["id"] = np.array([f"{HOSTILE[4]} {i}" for i in range(n)], dtype=object)
    job = Job("<i>target</i></title>", id="id", method="EM2NOLCClassifier", max_instances=4, max_features=9)
    results = run(table, job, "<b>file</b>.csv")
    assert set(results.model.model_.encoder.names) == set(HOSTILE)
    return results


SETTINGS = {"max_pairs": 1, "cv": 3}


def product_table(n: int = 300) -> dict[str, np.ndarray]:
    """Numbers, one of them with a long tail, categories and gaps; two products, of which cases get one."""
    rng = np.random.default_rng(0)
    a, b, u = rng.normal(size=(3, n))
    colour = np.array(["red", "green", "blue"], dtype=object)[rng.integers(3, size=n)]
    code = rng.integers(3, size=n).astype(float)
    score = np.where(colour == "red", 1.0, -0.5) + b + 2.0 * a * b + 2.5 * b * u
    a[rng.random(n) < 0.1], colour[rng.random(n) < 0.2], code[rng.random(n) < 0.1] = np.nan, None, np.nan
    y = np.where(score > 0.3, "yes", "no").astype(object)
    return {"a": a, "b": b, "colour": colour, "code": code, "income": np.exp(2 * u), "y": y}


@cache
def additive_fit() -> Results:
    """Two classes; a pair and cases."""
    job = Job("y", max_instances=6, max_features=5, categorical=("code",), options=SETTINGS)
    return run(product_table(), job, "additive.csv")


@cache
def weighted_fit() -> Results:
    """Class weights, which set probabilities apart from scores, and medians in the place of gaps."""
    options = {**SETTINGS, "missing": "median"}
    return run(mixed_table(), Job("y", class_weight="balanced", max_instances=4, options=options), "weighted.csv")


@cache
def additive_iris_fit() -> Results:
    """Three classes with a softmax of their scores."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    table = {name: iris.data[:, j] for j, name in enumerate(iris.feature_names)}
    table["species"] = iris.target_names[iris.target].astype(object)
    return run(table, Job("species", max_instances=6, options=SETTINGS), "iris.csv")


@cache
def additive_hostile_fit() -> Results:
    """Names that a page could trip over, in an additive model."""
    rng = np.random.default_rng(3)
    n = 120
    table = {name: rng.normal(size=n) for name in HOSTILE}
    levels = np.array(HOSTILE[:4], dtype=object)[rng.integers(4, size=n)]
    table[HOSTILE[0]] = levels
    score = np.sum([table[name] for name in HOSTILE[1:]], axis=0) + (levels == HOSTILE[1])
    table["<i>target</i></title>"] = np.where(score > 0, HOSTILE[4], HOSTILE[1]).astype(object)
    table["id"] = np.array([f"{HOSTILE[4]} {i}" for i in range(n)], dtype=object)
    job = Job("<i>target</i></title>", id="id", max_instances=4, options=SETTINGS)
    return run(table, job, "<b>file</b>.csv")


@cache
def constant_fit() -> Results:
    """An additive model that keeps neither a pair nor a case."""
    options = {**SETTINGS, "max_pairs": 0}
    return run(mixed_table(), Job("y", max_instances=0, max_features=1, options=options), "curves.csv")


ADDITIVE = {
    "two classes": additive_fit,
    "class weights": weighted_fit,
    "three classes": additive_iris_fit,
    "hostile names": additive_hostile_fit,
    "one curve": constant_fit,
}


@cache
def random_results(seed: int, classes: int = 2, **options: Any) -> Results:
    """Results of an additive model whose tables are random, without a test, and odd rows to show."""
    from tamis.base.explaining import kept_values
    from tamis.results.describe import show_rows
    from tamis.workflow.files import describe

    from additive_models import random_flagship

    made = random_flagship(seed, classes, **options)
    model = made.estimator
    rng, tables = np.random.default_rng(seed), model.model_
    outputs = len(tables.intercept)
    n = len(tables.curves) + len(tables.surfaces) + bool(len(tables.cases))
    model.part_variation_ = rng.random((outputs, n)) * 100 / max(1, n)
    model.loss_, model.n_splits_ = 0.5, 5
    model.instance_variation_ = rng.random((outputs, len(tables.cases)))
    results = describe(model, "random")
    rows = show_rows(model, kept_values(model, made.rows), None, np.arange(len(made.rows)))
    return replace(results, rows=rows)
