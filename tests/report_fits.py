"""Small fits to make pages of, each made once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

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
