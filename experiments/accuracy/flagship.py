"""Accuracy, calibration and stability of the flagship classifier beside its baselines, on splits of their own.

    TAMIS_DATA=... python benchmarks/flagship.py [--methods ebm,svc] [--sets pima,praf/groups] [--seeds 1000-1009]
    TAMIS_DATA=... python benchmarks/flagship.py --stability   one split (the first seed), five values of random_state
    python benchmarks/flagship.py --table                      docs/results/flagship.md from the rows, nothing is run
    python benchmarks/flagship.py --table --seeds 1000,1009 --page flagship_ebm    the same for some of the splits

Every (method, set, seed, random_state) is one line of benchmarks/out/flagship.jsonl, written when it finishes. Lines
that exist are not run again; a cell that fails is a line with its error, and is tried again by the next run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import special
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from experiments.accuracy.flagship_page import ALL, SETS, STATES, Array, ece, key, page
from experiments.datasets import Data, load

OUT = Path(__file__).parent / "out" / "flagship.jsonl"
PAGES = Path(__file__).parents[1] / "docs" / "results"
PROTOCOL = """\
Stratified 70/30 splits; "praf/groups" keeps the recordings of a subject on one side. All tuning is inside the training
part: svc, hgb, l1 and abess share five folds, EBM has its defaults (only the kinds of the columns and the seed are
given; one process, which changes nothing but the time), tamis chooses by itself. Nominal columns are declared, or
one-hot where a method needs numbers, and missing cells are imputed where a method needs all. The k of "l1@k" and
"abess@k" counts features of the table: all indicators of a nominal column are one. SVC predicts by itself; its
probabilities are a sigmoid of held-out decisions of the same folds."""
PACKAGES = ("tamis", "interpret", "abess", "scikit-learn", "numpy", "scipy")


@dataclass(frozen=True)
class Task:
    """A training part: rows, labels 0 and 1, nominal columns, subjects, seed of the folds, random state of the fit."""

    X: Array
    y: Array
    nominal: Array
    groups: Array | None
    seed: int
    state: int

    def folds(self) -> list[tuple[Array, Array]]:
        kind = StratifiedKFold if self.groups is None else StratifiedGroupKFold
        return list(kind(5, shuffle=True, random_state=self.seed).split(self.X, self.y, self.groups))


@dataclass(frozen=True)
class Fitted:
    """A model as a row needs it; `features` are columns of the table, None where a method uses all."""

    predict: Callable[[Array], Array]
    probability: Callable[[Array], Array]  # of class 1
    score: Callable[[Array], Array]  # ranks rows, for the AUC
    features: list[int] | None = None
    instances: int | None = None


def fitted(model: Any, features: list[int] | None = None, instances: int | None = None) -> Fitted:
    def probability(X: Array) -> Array:
        return model.predict_proba(X)[:, 1]

    return Fitted(model.predict, probability, getattr(model, "decision_function", probability), features, instances)


def ours(task: Task, k: int) -> Fitted:
    from tamis import TamisClassifier

    model = TamisClassifier(k, k, categorical_features=task.nominal, random_state=task.state)
    model.fit(task.X, task.y, groups=task.groups)
    return fitted(model, sorted(int(j) for j in model.features_), len(model.instances_))


def encoder(nominal: Array, drop: str | None = None) -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    codes = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", drop=drop, sparse_output=False)
    )
    parts = [("numbers", numbers, np.flatnonzero(~nominal)), ("codes", codes, np.flatnonzero(nominal))]
    return ColumnTransformer([p for p in parts if len(p[2])], sparse_threshold=0)


def svc(task: Task) -> Fitted:
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": ["scale", 0.001, 0.01, 0.1]}
    folds = task.folds()
    best = GridSearchCV(make_pipeline(encoder(task.nominal), SVC()), grid, cv=folds).fit(task.X, task.y).best_estimator_
    sigmoid = CalibratedClassifierCV(best, cv=folds, ensemble=False).fit(task.X, task.y)
    instances = int(best[-1].n_support_.sum())
    return Fitted(best.predict, lambda X: sigmoid.predict_proba(X)[:, 1], best.decision_function, None, instances)


def hgb(task: Task) -> Fitted:
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 15]}
    base = HistGradientBoostingClassifier(categorical_features=task.nominal, random_state=task.state)
    return fitted(GridSearchCV(base, grid, cv=task.folds(), scoring="neg_log_loss").fit(task.X, task.y))


def ebm(task: Task) -> Fitted:
    """Boosted shapes and pairs; its features are the 20 whose own shapes weigh most."""
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if n else "continuous" for n in task.nominal]
    model = ExplainableBoostingClassifier(feature_types=kinds, random_state=task.state, n_jobs=1).fit(task.X, task.y)
    terms = zip(model.term_features_, model.term_importances(), strict=True)
    shapes = {int(term[0]): float(weight) for term, weight in terms if len(term) == 1}
    return fitted(model, sorted(sorted(shapes, key=lambda j: -shapes[j])[:20]))


@dataclass(frozen=True)
class Indicators:
    """The training part as numbers, without columns that are constant in a fold; `owners` are columns of the table."""

    transform: Callable[[Array], Array]
    Z: Array
    owners: Array

    def kept(self, coef: Array) -> list[int]:
        return sorted({int(j) for j in self.owners[np.ravel(coef) != 0]})


def indicators(task: Task, drop: str | None = None) -> Indicators:
    encode = encoder(task.nominal, drop).fit(task.X)
    categories = encode.named_transformers_["codes"][-1].categories_ if np.any(task.nominal) else []
    sizes = [len(c) - (drop is not None) for c in categories]
    owners = np.r_[np.flatnonzero(~task.nominal), np.repeat(np.flatnonzero(task.nominal), np.array(sizes, dtype=int))]
    Z = encode.transform(task.X)
    varying = np.all([np.std(Z[a], axis=0) > 1e-12 for a, _ in task.folds()], axis=0)  # abess refuses constant columns
    return Indicators(lambda X: encode.transform(X)[:, varying], Z[:, varying], owners[varying])


def best_linear(task: Task, table: Indicators, models: list[Any]) -> Fitted:
    """The model with the best accuracy over the folds (the first of equals), fitted again on all rows."""
    Z, y, folds = table.Z, task.y, task.folds()
    accuracy = [np.mean([m.fit(Z[a], y[a]).score(Z[b], y[b]) for a, b in folds]) for m in models]
    best = models[int(np.argmax(accuracy))].fit(Z, y)
    coef, intercept = np.ravel(best.coef_), float(np.ravel(best.intercept_)[0])

    def score(X: Array) -> Array:
        return table.transform(X) @ coef + intercept

    return Fitted(lambda X: (score(X) > 0).astype(int), lambda X: special.expit(score(X)), score, table.kept(coef))


def l1(task: Task, k: int) -> Fitted:
    table = indicators(task)
    options = {"penalty": "l1", "l1_ratio": 1.0, "solver": "liblinear", "max_iter": 1000, "random_state": task.state}
    options["intercept_scaling"] = 100.0  # liblinear shrinks the intercept too, unless its column is large
    path = [LogisticRegression(C=c, **options) for c in np.logspace(-3, 2, 41)]
    models = [m for m in path if len(table.kept(m.fit(table.Z, task.y).coef_)) <= k]
    if not models:
        raise ValueError(f"no penalty of the path keeps at most {k} features: begin the path lower than C = 0.001")
    return best_linear(task, table, models)


def abess(task: Task, k: int) -> Fitted:
    from abess import LogisticRegression as Abess

    table = indicators(task, drop="first")  # all indicators of a column and the intercept would be collinear
    group = np.cumsum(np.r_[0, np.diff(table.owners) != 0])
    sizes = sorted({min(s, int(group[-1]) + 1) for s in (1, 2, 3, 5, 7, 10, 14, 20) if s <= k})
    return best_linear(task, table, [Abess(support_size=s, group=group) for s in sizes])


METHODS: dict[str, Callable[..., Fitted]] = {
    "tamis": ours,
    "svc": svc,
    "hgb": hgb,
    "ebm": ebm,
    "l1": l1,
    "abess": abess,
}


def parts(data: Data, seed: int, grouped: bool) -> tuple[Array, Array]:
    """Return the training and test rows of a stratified 70/30 split, of subjects where `grouped`."""
    cut = StratifiedShuffleSplit(1, test_size=0.3, random_state=seed)
    if not grouped:
        return next(cut.split(data.X, data.y))
    if data.groups is None:
        raise ValueError(f"set={data.name!r} has no groups: ask for it without '/groups'")
    subjects, first, of = np.unique(data.groups, return_index=True, return_inverse=True)
    if np.any(data.y[first][of] != data.y):
        raise ValueError(f"set={data.name!r} has groups of two classes: stratify by something else")
    train, test = next(cut.split(subjects, data.y[first]))
    return np.flatnonzero(np.isin(of, train)), np.flatnonzero(np.isin(of, test))


def measured(method: str, name: str, seed: int, state: int) -> dict[str, Any]:
    grouped = name.endswith("/groups")
    data = load(name.removesuffix("/groups"))
    train, test = parts(data, seed, grouped)
    groups = data.groups[train] if grouped and data.groups is not None else None
    task = Task(data.X[train], data.y[train], data.nominal, groups, seed, state)
    base, _, size = method.partition("@")
    wall, cpu = time.perf_counter(), time.process_time()
    model = METHODS[base](task, int(size)) if size else METHODS[base](task)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    X, y = data.X[test], data.y[test]
    p = model.probability(X)
    return {
        "accuracy": float(np.mean(model.predict(X) == y)),
        "auc": float(roc_auc_score(y, model.score(X))),
        "log_loss": float(log_loss(y, p)),
        "brier": float(brier_score_loss(y, p)),
        "ece": ece(y, p),
        "seconds": {"wall": wall, "cpu": cpu},
        "features": model.features,
        "n_instances": model.instances,
        "n_features_in": data.X.shape[1],
        "n_train": len(train),
        "n_test": len(test),
        "probabilities": np.round(p, 5).tolist(),
    }


def one(method: str, name: str, seed: int, state: int | None, made: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one cell; `state` is None where the random state of the fit is the seed of the split."""
    row = {"method": method, "set": name, "seed": seed, "state": state, "made": made}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", FutureWarning)
        try:
            row |= measured(method, name, seed, seed if state is None else state)
        except Exception as error:  # whatever fails is a row that the page names
            row |= {"error": f"{type(error).__name__}: {error}"}
    return row | {"warnings": sorted({f"{w.category.__name__}: {str(w.message)[:120]}" for w in seen})}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the last row of every cell."""
    lines = path.read_text().splitlines() if path.exists() else []
    return list({key(row): row for row in map(json.loads, lines)}.values())


def provenance() -> dict[str, Any]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return {
        "command": " ".join(["python benchmarks/flagship.py", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "versions": {"Python": platform.python_version(), **found},
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }


def cells_to_run(args: argparse.Namespace, seeds: list[int], have: set) -> list[tuple[str, str, int, int | None]]:
    sets = args.sets.split(",")
    methods = args.methods.split(",")
    if args.stability:
        sets = [s for s in sets if load(s.removesuffix("/groups")).X.shape[1] > 20]
        methods = [m for m in methods if m in ("tamis@20", "ebm")]
    repeats = [(seeds[0], state) for state in STATES] if args.stability else [(seed, None) for seed in seeds]
    cells = [(m, s, seed, state) for m in methods for s in sets for seed, state in repeats]
    return [cell for cell in cells if cell not in have]


def span(words: str) -> range:
    """The seeds of "1003", or of "1000-1009"."""
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(ALL))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="1000-1009")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stability", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--page", default="flagship", help="name of the page that --table writes")
    args = parser.parse_args()
    unknown = {m for m in args.methods.split(",") if m not in ALL} | {s for s in args.sets.split(",") if s not in SETS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; methods are {', '.join(ALL)}; sets are {', '.join(SETS)}")
    seeds = [seed for part in args.seeds.split(",") for seed in span(part)]
    if args.table:
        PAGES.mkdir(parents=True, exist_ok=True)
        (PAGES / f"{args.page}.md").write_text(page(rows_of(OUT), seeds, PROTOCOL))
        return
    OUT.parent.mkdir(parents=True, exist_ok=True)
    have = {key(row) for row in rows_of(OUT) if "error" not in row}
    made, cells = provenance(), cells_to_run(args, seeds, have)
    for row in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(delayed(one)(*c, made) for c in cells):
        with OUT.open("a") as file:
            file.write(json.dumps(row) + "\n")
        result = row.get("error") or f"{100 * row['accuracy']:.1f}  {row['seconds']['cpu']:.1f} s"
        print(f"{row['method']} {row['set']} {row['seed']}: {result}", flush=True)


if __name__ == "__main__":
    main()
