"""
Into service: a file, a few columns, a table of points
======================================================

This example shows three ways to use a fitted model elsewhere: save and load it without pickle, score rows that have
the kept columns alone, and write an additive model as a table of points that numpy, or a spreadsheet, can add up.
"""

import json
import pickle
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tamis import EM2NOLCClassifier, TamisClassifier, io

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# %%
# A file
# ------
# ``io.save`` writes JSON and arrays, versioned and checksummed; loading runs no code. For comparison, the sizes of two
# pickles, which run code when they are loaded.

blend = TamisClassifier(10, 5, interactions=2, cv=3, random_state=0).fit(X_train, y_train)
additive = EM2NOLCClassifier(10, 5, random_state=0).fit(X_train, y_train)
peers = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train),
    "random forest": RandomForestClassifier(50, random_state=0).fit(X_train, y_train),
}
sizes = {}
with tempfile.TemporaryDirectory() as folder:
    for name, model in {"tamis": blend, "additive (EM2NOLC)": additive}.items():
        path = Path(folder) / "model.tamis"
        io.save(model, path)
        sizes[name] = path.stat().st_size
        loaded = io.load(path)
        same = np.array_equal(loaded.decision_function(X_test), model.decision_function(X_test))
        print(f"{name}: the loaded model decides the same: {same}")
sizes |= {name: len(pickle.dumps(model)) for name, model in peers.items()}
models = {"tamis": blend, "additive (EM2NOLC)": additive, **peers}
for name, size in sizes.items():
    print(f"{name:20} {size / 1024:7.1f} KiB, test accuracy {models[name].score(X_test, y_test):.3f}")

# %%
# The kept columns are enough
# ---------------------------
# A dict with these columns and no others.

names = X.columns[blend.features_]
few = {name: X_test[name].to_numpy() for name in names}
same = np.array_equal(blend.predict(few), blend.predict(X_test))
print(f"reads {', '.join(names)}; predictions from these columns are the same: {same}")

# %%
# A table of points
# -----------------
# The additive model is an intercept and one shape for each kept feature. Read off at forty places, with straight
# lines between them, it becomes a small JSON document that needs nothing but numpy. Values beyond the range are
# replaced by its ends, as in the model.

card = {"intercept": float(additive.intercept_[0]), "features": {}}
for name in X.columns[additive.features_]:
    grid, points = additive.shape_function(name)
    places = np.linspace(grid[0], grid[-1], 40)
    card["features"][name] = {"value": places.tolist(), "points": np.interp(places, grid, points).tolist()}
text = json.dumps(card)


def score(rows, card):
    """Decisions from the table of points alone."""
    parts = [np.interp(rows[name], part["value"], part["points"]) for name, part in card["features"].items()]
    return card["intercept"] + np.sum(parts, axis=0)


decision, read = additive.decision_function(X_test), score(X_test, json.loads(text))
classes = additive.classes_[(read > 0).astype(int)]
print(f"{len(text) / 1024:.1f} KiB of JSON; decisions range from {decision.min():.2f} to {decision.max():.2f}")
print(f"largest difference {np.abs(read - decision).max():.1e}")
print(f"predictions that differ: {np.sum(classes != additive.predict(X_test))} of {len(X_test)}")

# %%
# The table as a picture: points for each feature, and the sum against the decision of the model itself.

figure, axes = plt.subplots(2, 3, figsize=(10, 5.4), layout="constrained")
for ax, (name, part) in zip(axes.flat, card["features"].items()):
    ax.plot(part["value"], part["points"], ".-", color="#0072B2", markersize=4)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xlabel=name, ylabel="points for " + additive.classes_[1])
axes.flat[5].plot(decision, read, "o", markersize=3, color="#D55E00")
axes.flat[5].axline((0, 0), slope=1, color="black", linewidth=0.8)
axes.flat[5].set(xlabel="decision of the model", ylabel="sum of points")
plt.show()
