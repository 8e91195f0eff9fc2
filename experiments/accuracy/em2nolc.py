"""Accuracy on real tables: five stratified 70/30 splits, everything tuned inside the training part.

    TAMIS_DATA=... python benchmarks/accuracy.py [--methods tamis,svc] [--sets pima,wdbc] [--seeds 0-4] [--jobs 2]

Every (method, set, split) is one line of benchmarks/out/accuracy.jsonl; lines that exist are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import tamis
from experiments.datasets import THIRTEEN, Data, load

OUT = Path(__file__).parent / "out" / "accuracy.jsonl"


def split(data: Data, seed: int, grouped: bool) -> tuple[np.ndarray, np.ndarray]:
    if grouped:
        return next(GroupShuffleSplit(1, test_size=0.3, random_state=seed).split(data.X, data.y, data.groups))
    return next(StratifiedShuffleSplit(1, test_size=0.3, random_state=seed).split(data.X, data.y))


def inner(seed: int, groups: np.ndarray | None):
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return kind(5, shuffle=True, random_state=seed)


def encoded(nominal: np.ndarray):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    codes = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    parts = [("numbers", numbers, np.flatnonzero(~nominal)), ("codes", codes, np.flatnonzero(nominal))]
    return ColumnTransformer([p for p in parts if len(p[2])], sparse_threshold=0)


def svc(X, y, nominal, groups, seed):
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": ["scale", 0.001, 0.01, 0.1]}
    return GridSearchCV(make_pipeline(encoded(nominal), SVC()), grid, cv=inner(seed, groups)).fit(X, y, groups=groups)


def hgb(X, y, nominal, groups, seed):
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 15]}
    base = HistGradientBoostingClassifier(categorical_features=nominal, random_state=seed)
    return GridSearchCV(base, grid, cv=inner(seed, groups), scoring="neg_log_loss").fit(X, y, groups=groups)


def ebm(X, y, nominal, groups, seed):
    from interpret.glassbox import ExplainableBoostingClassifier

    kinds = ["nominal" if n else "continuous" for n in nominal]
    # four bags instead of fourteen: a third of the time
    return ExplainableBoostingClassifier(feature_types=kinds, outer_bags=4, random_state=seed, n_jobs=1).fit(X, y)


CHOICES = {
    "tamis": {},
    "tamis_variants": {
        "kernels": {"per_feature": tamis.per_feature(), "product": tamis.product()},
        "couplings": ("rank_one", "full"),
        "refits": ("logistic",),
        "alphas": (0.003, 0.01, 0.03),
        "rule": "largest",
    },
    "tamis_product": {
        "kernels": tamis.product(),
        "bandwidths": (0.3, 0.5, 1.0),
        "alphas": (0.001, 0.01),
        "refits": ("logistic",),
        "rule": "largest",
    },
}


def ours(X, y, nominal, groups, seed, choice="tamis", **budgets):
    clf = tamis.EM2NOLCClassifierCV(
        categorical_features=nominal, random_state=seed, cv=inner(seed, groups), **CHOICES[choice], **budgets
    )
    return clf.fit(X, y, groups=groups)


def fixed(X, y, nominal, groups, seed):
    """One untuned fit, for tables on which the search takes long."""
    options = {"coupling": "full", "refit": "logistic", "alpha": 0.003, "candidates": 300, "calibration": None}
    clf = tamis.EM2NOLCClassifier(20, 20, **options, categorical_features=nominal, engine="dense", random_state=seed)
    return clf.fit(X, y)


def sparse_linear(X, y, nominal, groups, seed, kind, k):
    """Logistic regression with at most k columns of the encoded table."""
    encoder = encoded(nominal).fit(X)
    Z = encoder.transform(X)
    folds = list(inner(seed, groups).split(Z, y, groups))
    varying = np.all([np.std(Z[a], axis=0) > 1e-12 for a, _ in folds], axis=0)  # abess refuses constant columns
    Z = Z[:, varying]
    if kind == "abess":
        from abess import LogisticRegression as Abess

        sizes = [s for s in (1, 2, 3, 5, 7, 10, 14, 20) if s < k] + [k]
        models = [Abess(support_size=min(s, Z.shape[1])) for s in sizes]
    else:
        paths = [LogisticRegression(penalty="l1", C=c, solver="liblinear") for c in np.logspace(-2, 2, 17)]
        models = [m for m in paths if np.count_nonzero(m.fit(Z, y).coef_) <= k]
    if not models:
        return encoder, varying, LogisticRegression(penalty="l1", C=1e-2, solver="liblinear").fit(Z, y)
    score = [np.mean([m.fit(Z[a], y[a]).score(Z[b], y[b]) for a, b in folds]) for m in models]
    return encoder, varying, models[int(np.argmax(score))].fit(Z, y)


class Encoded:
    def __init__(self, parts):
        self.encoder, self.varying, self.model = parts

    def _encode(self, X):
        return self.encoder.transform(X)[:, self.varying]

    def predict(self, X):
        return self.model.predict(self._encode(X))

    def decision_function(self, X):
        return self.model.predict_proba(self._encode(X))[:, 1]


def one(method: str, name: str, seed: int, grouped: bool) -> dict:
    warnings.filterwarnings("ignore")
    data = load(name)
    train, test = split(data, seed, grouped)
    X, y, nominal = data.X[train], data.y[train], data.nominal
    groups = data.groups[train] if grouped else None
    start = time.process_time()
    plain = {"svc": svc, "hgb": hgb, "ebm": ebm, "tamis_fixed": fixed}
    if method in plain:
        model = plain[method](X, y, nominal, groups, seed)
    elif method.partition("@")[0] in CHOICES:
        base, _, size = method.partition("@")
        budgets = {"max_instances": int(size), "max_features": int(size)} if size else {}
        model = ours(X, y, nominal, groups, seed, base, **budgets)
    else:
        kind, size = method.split("@")
        model = Encoded(sparse_linear(X, y, nominal, groups, seed, kind, int(size)))
    seconds = time.process_time() - start
    Xt, yt = data.X[test], data.y[test]
    score = model.decision_function(Xt) if hasattr(model, "decision_function") else model.predict_proba(Xt)[:, 1]
    row = {
        "method": method,
        "set": name + ("/groups" if grouped else ""),
        "seed": seed,
        "accuracy": float(np.mean(model.predict(Xt) == yt)),
        "auc": float(roc_auc_score(yt, score)),
        "seconds": seconds,
    }
    if hasattr(model, "instances_"):
        row |= {"instances": len(model.instances_), "features": len(model.features_)}
    if hasattr(model, "kernels_choice_"):
        row |= {
            "chosen": [model.kernels_choice_, model.coupling_, model.refit_, str(model.bandwidth_), model.alpha_],
        }
    return row


def table(rows: list[dict], seeds: list[int]) -> str:
    """Accuracy per set and method, mean over the seeds that all methods have."""
    rows = [r for r in rows if r["seed"] in seeds]
    methods = sorted({r["method"] for r in rows})
    lines = ["| set | " + " | ".join(methods) + " |", "|---" * (len(methods) + 1) + "|"]
    means: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(r["set"] for r in rows):
        cells = {m: [r["accuracy"] for r in rows if r["method"] == m and r["set"] == name] for m in methods}
        means[name] = {m: 100 * float(np.mean(v)) if len(v) == len(seeds) else np.nan for m, v in cells.items()}
        lines.append(f"| {name} | " + " | ".join(f"{means[name][m]:.1f}" for m in methods) + " |")
    core = [means[n] for n in THIRTEEN if n in means]
    lines.append("| mean of the 13 | " + " | ".join(f"{np.mean([c[m] for c in core]):.2f}" for m in methods) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="tamis,tamis_variants,svc,hgb,ebm,abess@20,l1@20")
    parser.add_argument("--sets", default=",".join(THIRTEEN))
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    OUT.parent.mkdir(exist_ok=True)
    done = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    have = {(r["method"], r["set"], r["seed"]) for r in done}
    jobs = [
        (m, s.removesuffix("/groups"), k, s.endswith("/groups"))
        for m in args.methods.split(",")
        for s in args.sets.split(",")
        for k in seeds
        if (m, s, k) not in have
    ]
    for row in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(delayed(one)(*job) for job in jobs):
        with OUT.open("a") as file:
            file.write(json.dumps(row) + "\n")
        done.append(row)
    print(table(done, seeds))


if __name__ == "__main__":
    main()
