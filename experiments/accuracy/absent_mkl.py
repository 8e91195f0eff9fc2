"""Accuracy against the share of absent channels, for absent multiple kernel learning and its baselines.

    python benchmarks/absent_mkl_accuracy.py [--sets NAME ...] [--absence fixed|random] [--repeats 3] [--only NAME ...]

"fixed" is the protocol of [Liu2015]: every row lacks the same number of channels (the ratio times their number, halves
up), drawn at random, in the training part and in the test part alike. In "random" every channel of every row is absent
with the ratio as its probability, so that some rows have all channels. protein_fold has its own split; mfeat is 600
rows for training and 1000 for the test, the others are halves, drawn anew in every repetition. Costs are 0.1, 1, 10 or
100, chosen for every set, ratio and method on the halves of the first repetition's training part; more than two classes
are one against the rest. "direct" and "literal" are conic programs and run on two classes only, and iterative
imputation on up to 100 features. Rows go to benchmarks/out/absent_mkl_<absence>.csv as they finish; those that are
there already are not run again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import numpy as np
from sklearn.base import ClassifierMixin, TransformerMixin, clone
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from experiments.accuracy.l0_mkl import rows_of, write
from experiments.datasets import GROUP, folder
from tamis import (
    AbsentMKLClassifier,
    ChannelBaselineClassifier,
    GaussianImputer,
    Polynomial,
    SimpleMKLClassifier,
    per_group,
)
from tamis.kernels.normalised import Normalised

RATIOS = (0.0, 0.3, 0.6, 0.9)
COSTS = (0.1, 1.0, 10.0, 100.0)
SETS = ("sonar", "sonar_30", "ionosphere", "mfeat", "protein_fold")
SOLVED = ("direct", "literal")
CACHE = mkdtemp()  # one imputation serves all costs
PAPER = {  # [Liu2015], protein fold, means over the ratios 0, 0.1 ... 0.9
    "amkl": 51.99,
    "mean_margin": 48.13,
    "zero_filling": 48.04,
    "mean filling": 42.25,
    "fusion": 44.50,
    "max margin": 48.64,
    "EM + MKL": 44.24,
}


class Channels:
    """Rows with channels: columns of each, kernels, and the split."""

    def __init__(self, name: str):
        file = name.split("_")[0] if name.startswith("sonar") else name
        with np.load(folder() / GROUP[file] / f"{file}.npz") as data:
            self.X, self.y = data["X"].astype(float), data["y"]
            self.split, view = data.get("split"), data.get("view")
            names = data["view_names"].tolist() if view is not None else None
        d = self.X.shape[1]
        if name == "sonar_30":
            rng = np.random.default_rng(0)  # channels share features, so each has its own copy of them
            self.X = np.hstack([self.X[:, np.sort(rng.permutation(d)[:6])] for _ in range(30)])
            self.columns = {f"channel {k}": list(range(6 * k, 6 * k + 6)) for k in range(30)}
        elif view is None:
            parts = np.array_split(np.arange(d), {"sonar": 10, "ionosphere": 11}[name])
            self.columns = {f"columns {p[0]} to {p[-1]}": p.tolist() for p in parts}
        else:
            self.columns = {names[v]: np.flatnonzero(view == v).tolist() for v in range(len(names))}
        self.name = name
        if name == "protein_fold":  # inner products of Smith-Waterman scores, squares for the others, as is usual
            self.kernels = [
                (key, Normalised(Polynomial(1, 0.0) if key.startswith("SW") else Polynomial(2, 1.0)), columns)
                for key, columns in self.columns.items()
            ]
        else:
            self.kernels = per_group(self.columns)

    def parts(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        if self.split is not None:
            return np.flatnonzero(self.split == 0), np.flatnonzero(self.split == 1)
        sizes = {"train_size": 600, "test_size": 1000} if self.name == "mfeat" else {"test_size": 0.5}
        return train_test_split(np.arange(len(self.y)), stratify=self.y, random_state=seed, **sizes)

    def mask(self, n: int, ratio: float, absence: str, rng: np.random.Generator) -> np.ndarray:
        m = len(self.columns)
        draws = rng.random((n, m))
        if absence == "random":
            return draws >= ratio
        return np.argsort(np.argsort(draws, axis=1), axis=1) >= int(np.floor(ratio * m + 0.5))

    def blanked(self, X: np.ndarray, present: np.ndarray) -> np.ndarray:
        """The table without what is absent."""
        X = X.copy()
        for here, columns in zip(present.T, self.columns.values(), strict=True):
            X[np.ix_(~here, columns)] = np.nan
        return X


def methods(task: Channels, absence: str) -> dict[str, ClassifierMixin]:
    own = {"kernels": task.kernels, "calibration": None}
    out: dict[str, ClassifierMixin] = {
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
    two = len(np.unique(task.y)) == 2
    if two:
        out |= {program: AbsentMKLClassifier(program=program, **own) for program in SOLVED}
    out |= {
        "mean filling": ChannelBaselineClassifier("mean_filling", **own),
        "fusion": ChannelBaselineClassifier("fusion", **own),
        "max margin": ChannelBaselineClassifier("max_margin", **own),
        "EM + MKL": make_pipeline(
            GaussianImputer(max_iter=20 if task.X.shape[1] < 700 else 5), SimpleMKLClassifier(**own), memory=CACHE
        ),
        "mean imputed + SVC": imputed(SimpleImputer(keep_empty_features=True)),
        "neighbours imputed + SVC": imputed(KNNImputer(keep_empty_features=True)),
    }
    if task.X.shape[1] <= 100:
        out["iterated imputation + SVC"] = imputed(
            IterativeImputer(keep_empty_features=True, random_state=0, max_iter=5)
        )
    return out


def imputed(imputer: TransformerMixin) -> Pipeline:
    """A machine on imputed features, clipped to their training range as the other methods have them."""
    return make_pipeline(imputer, MinMaxScaler(clip=True), StandardScaler(), SVC(), memory=CACHE)


def accuracy(model: ClassifierMixin, C: float, train: tuple, test: tuple) -> float:
    model = clone(model)
    names = [name for name in model.get_params() if name == "C" or name.endswith("__C")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(**{names[0]: C}).fit(*train).score(*test)


def drawn(task: Channels, ratio: float, absence: str, seed: int) -> tuple[tuple, tuple]:
    """Training and test rows of one repetition, with their absences."""
    rng = np.random.default_rng([seed, round(10 * ratio)])
    parts = []
    for rows in task.parts(seed):
        present = task.mask(len(rows), ratio, absence, rng)
        parts.append((task.blanked(task.X[rows], present), task.y[rows]))
    return parts[0], parts[1]


def run(name: str, absence: str, repeats: int, only: list[str], out: Path) -> None:
    task, rows = Channels(name), rows_of(out)
    done = {(row["set"], row["ratio"], row["method"], row["repeat"]) for row in rows}
    for ratio in RATIOS:
        for method, model in methods(task, absence).items():
            wanted = [r for r in range(repeats) if (name, str(ratio), method, str(r)) not in done]
            if not wanted or (only and method not in only):
                continue
            (X, y), _ = drawn(task, ratio, absence, 0)
            a, b = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
            start = time.perf_counter()
            tuned = [accuracy(model, C, (X[a], y[a]), (X[b], y[b])) for C in COSTS]
            C = COSTS[int(np.argmax(tuned))]
            for r in wanted:
                found = accuracy(model, C, *drawn(task, ratio, absence, r))
                row = {"set": name, "ratio": ratio, "method": method, "repeat": r, "C": C, "accuracy": 100 * found}
                write(out, [*rows_of(out), row])
            print(f"{name} {ratio} {method}: C={C} {100 * found:.1f}  {time.perf_counter() - start:.0f} s", flush=True)


def table(out: Path) -> str:
    rows = rows_of(out)
    lines = []
    for name in dict.fromkeys(row["set"] for row in rows):
        lines += [
            "",
            f"| {name} | " + " | ".join(map(str, RATIOS)) + " | mean | paper |",
            "|---" * (len(RATIOS) + 3) + "|",
        ]
        for method in dict.fromkeys(row["method"] for row in rows if row["set"] == name):
            cells = []
            for ratio in RATIOS:
                found = [
                    float(row["accuracy"])
                    for row in rows
                    if (row["set"], row["method"], float(row["ratio"])) == (name, method, ratio)
                ]
                cells.append((np.mean(found), np.std(found)) if found else (np.nan, np.nan))
            texts = " | ".join("-" if np.isnan(mean) else f"{mean:.1f} ± {std:.1f}" for mean, std in cells)
            paper = PAPER.get(method, "") if name == "protein_fold" else ""
            lines.append(f"| {method} | {texts} | {np.mean([mean for mean, _ in cells]):.1f} | {paper} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--absence", choices=("fixed", "random"), default="fixed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--part", default="", help="a suffix of the file, for runs side by side")
    options = parser.parse_args()
    out = Path(__file__).parent / "out" / f"absent_mkl_{options.absence}{options.part}.csv"
    out.parent.mkdir(exist_ok=True)
    for name in options.sets:
        run(name, options.absence, options.repeats, options.only, out)
    print(table(out))
    rmtree(CACHE)
