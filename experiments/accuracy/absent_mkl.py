"""Accuracy against the share of absent channels, for absent multiple kernel learning and its baselines.

    python -m experiments.accuracy.absent_mkl [--sets NAME ...] [--absence fixed|random] [--repeats 3] [--only NAME ...]

"fixed" is the protocol of [Liu2015]: every row lacks the same number of channels (the ratio times their number, halves
up), drawn at random, in the training part and in the test part alike. In "random" every channel of every row is absent
with the ratio as its probability, so that some rows have all channels. protein_fold has its own split; mfeat has 600
training rows and 1000 test rows; the others are halves, drawn again in every repetition. Costs are 0.1, 1, 10 or 100,
chosen for every set, ratio and method on the halves of the first repetition's training part; more than two classes are
one against the rest. "direct" and "literal" are conic programs and run on two classes only, and iterative imputation on
up to 100 features. Rows are kept in experiments/out.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from experiments.accuracy.rows import Row, measure
from experiments.datasets import Dataset, cache_folder, load
from experiments.papers import PAPERS
from experiments.papers.absent_mkl import kernels_of
from experiments.peers import COSTS
from experiments.tables import spread, table
from tamis import AbsentMKLClassifier, ChannelBaselineClassifier, GaussianImputer, SimpleMKLClassifier

Part = tuple[np.ndarray, np.ndarray]
PAPER = PAPERS["absent-mkl"]
NAMES = {  # in the paper
    "amkl": "C-AMKL",
    "mean_margin": "MM-MKL",
    "zero_filling": "ZF-MKL",
    "mean filling": "MF-MKL",
    "fusion": "CF",
    "max margin": "MMAF",
    "EM + MKL": "EM-MKL",
}
RATIOS = (0.0, 0.3, 0.6, 0.9)
SETS = ("sonar", "sonar_30", "ionosphere", "mfeat", "protein_fold")
MEMORY = str(cache_folder() / "imputations")  # one imputation serves all costs
MAX_ITERATED = 100  # features of iterative imputation


def methods(data: Dataset, absence: str) -> dict[str, Any]:
    own: dict[str, Any] = {"kernels": kernels_of(data.name, data.views), "calibration": None}
    out: dict[str, Any] = {
        "amkl": AbsentMKLClassifier(**own),
        "amkl, share 0.5": AbsentMKLClassifier(pattern_weight="share", **own),
        "mean_margin": AbsentMKLClassifier(program="mean_margin", **own),
        "zero_filling": AbsentMKLClassifier(program="zero_filling", **own),
        "sum": AbsentMKLClassifier(program="sum", **own),
    }
    if absence == "random":
        out["amkl, share 0.2"] = AbsentMKLClassifier(pattern_weight=0.2, **own)
        out["amkl, without rare patterns"] = AbsentMKLClassifier(min_share=0.05, **own)
        return out
    d = data.X.shape[1]
    if len(np.unique(data.y)) == 2:
        out |= {program: AbsentMKLClassifier(program=program, **own) for program in ("direct", "literal")}
    imputer = GaussianImputer(max_iter=20 if d < 700 else 5)
    out |= {
        "mean filling": ChannelBaselineClassifier("mean_filling", **own),
        "fusion": ChannelBaselineClassifier("fusion", **own),
        "max margin": ChannelBaselineClassifier("max_margin", **own),
        "EM + MKL": make_pipeline(imputer, SimpleMKLClassifier(**own), memory=MEMORY),
        "mean imputed + SVC": imputed(SimpleImputer(keep_empty_features=True)),
        "neighbours imputed + SVC": imputed(KNNImputer(keep_empty_features=True)),
    }
    if d <= MAX_ITERATED:
        iterated = IterativeImputer(keep_empty_features=True, random_state=0, max_iter=5)
        out["iterated imputation + SVC"] = imputed(iterated)
    return out


def imputed(imputer: Any) -> Pipeline:
    """Return a support vector classifier on imputed features, clipped to their training range as in other methods."""
    return make_pipeline(imputer, MinMaxScaler(clip=True), StandardScaler(), SVC(), memory=MEMORY)


def halves(data: Dataset, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if data.split is not None:
        return np.flatnonzero(data.split == 0), np.flatnonzero(data.split == 1)
    sizes = {"train_size": 600, "test_size": 1000} if data.name == "mfeat" else {"test_size": 0.5}
    return train_test_split(np.arange(len(data.y)), stratify=data.y, random_state=seed, **sizes)


def drawn(data: Dataset, ratio: float, absence: str, seed: int) -> tuple[Part, Part]:
    """Return the training and test rows of one repetition, with NaN in absent channels."""
    rng, m, parts = np.random.default_rng([seed, round(10 * ratio)]), len(data.views), []
    for rows in halves(data, seed):
        draws = rng.random((len(rows), m))
        places = np.argsort(np.argsort(draws, axis=1), axis=1)
        absent = draws < ratio if absence == "random" else places < int(np.floor(ratio * m + 0.5))
        X = data.X[rows]
        for lacking, columns in zip(absent.T, data.views.values(), strict=True):
            X[np.ix_(lacking, columns)] = np.nan
        parts.append((X, data.y[rows]))
    return parts[0], parts[1]


def accuracy(model: Any, C: float, train: Part, test: Part) -> float:
    name = next(name for name in model.get_params() if name == "C" or name.endswith("__C"))
    return 100 * clone(model).set_params(**{name: C}).fit(*train).score(*test)


def one(set: str, absence: str, ratio: float, method: str, repeats: int) -> Row:
    """Return the accuracies of all repetitions, with the cost that is best on the first."""
    data = load(set)
    model = methods(data, absence)[method]
    (X, y), _ = drawn(data, ratio, absence, 0)
    a, b = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    C = COSTS[int(np.argmax([accuracy(model, C, (X[a], y[a]), (X[b], y[b])) for C in COSTS]))]
    found = [accuracy(model, C, *drawn(data, ratio, absence, seed)) for seed in range(repeats)]
    return {"C": C, "accuracies": found}


def lines(rows: list[Row], name: str, absence: str) -> list[list[str]]:
    out = []
    own = [row for row in rows if (row["set"], row["absence"]) == (name, absence) and "error" not in row]
    for method in dict.fromkeys(row["method"] for row in own):
        found = {row["ratio"]: row["accuracies"] for row in own if row["method"] == method}
        known = PAPER.reported(name, NAMES.get(method, ""), "accuracy")
        mean = float(np.mean([np.mean(found[r]) if r in found else np.nan for r in RATIOS]))
        cells = [spread(found.get(r, []), ddof=0) for r in RATIOS]
        out.append([method, *cells, f"{mean:.1f}", f"{known.value:.2f}" if known else ""])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--absence", choices=("fixed", "random"), default="fixed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    cells = [
        {"set": name, "absence": options.absence, "ratio": ratio, "method": method, "repeats": options.repeats}
        for name in options.sets
        for ratio in RATIOS
        for method in methods(load(name), options.absence)
        if not options.only or method in options.only
    ]
    rows = measure("absent_mkl", cells, one)
    for name in options.sets:
        print("\n" + table([name, *RATIOS, "mean", "paper"], lines(rows, name, options.absence)))


if __name__ == "__main__":
    main()
