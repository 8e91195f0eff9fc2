"""Write model files that every later version must read: ``python tests/data/models/make.py LABEL ESTIMATOR...``

Each file ``LABEL-ESTIMATOR.tamis`` is a small fit by the version of tamis that is imported; what it decides about the
rows of `table` goes to ``expected.json``. "Statistics" stands for sums over these rows.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent
SMALL = {"max_instances": 3, "max_features": 2, "cv": 2, "calibration": 2, "max_iter": 5, "rounds": 1}
GRIDS = {"bandwidths": (1.0,), "alphas": (0.01,), "lambda2s": (0.1,), "thetas": (10.0,), "Cs": (1.0,), "kappas": (0.1,)}
GRIDS |= {"prototype_sizes": (2,), "code_sizes": (None,), "pattern_weight": "share", "pattern_weights": ("share",)}


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """24 rows with a number, a number with missing cells and a category, and their classes."""
    k = np.arange(24)
    X = pd.DataFrame({"u": np.sin(k), "v": np.cos(3.0 * k), "c": pd.Categorical(np.array(list("abc"))[k % 3])})
    X.loc[::7, "u"] = np.nan
    return X, np.where(X["v"] + (X["c"] == "a") > 0.3, "yes", "no")


def decided(model, X: pd.DataFrame) -> list:
    """What a model says about rows, as JSON."""
    return np.asarray(model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)).tolist()


def main(label: str, *names: str) -> None:
    """Write the files."""
    import tamis
    from tamis import io

    X, y = table()
    path = FOLDER / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        file = FOLDER / f"{label}-{name}.tamis"
        if name == "Statistics":
            sums = tamis.Statistics(tamis.Plan.of(X, y, folds=2)).update(X, y)
            sums.save(file)
            expected[file.name] = sums.sums()[0].tolist()
            continue
        cls = getattr(tamis, name)
        model = cls(**{k: v for k, v in {**SMALL, **GRIDS}.items() if k in cls().get_params()})
        model.fit(X, y if hasattr(model, "predict_proba") or "Classifier" in name else X["v"].to_numpy())
        io.save(model, file)
        expected[file.name] = decided(model, X)
    path.write_text(json.dumps(expected, indent=1, sort_keys=True).replace("\n  ", " ").replace("\n ]", "]") + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
