"""
Into service: a file, a few columns, a scorecard
================================================

This example shows three ways to use a fitted model elsewhere: save and load it without pickle, score rows that have
the kept columns alone, and write the model as a scorecard of whole points that can be added up by hand.
"""

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

from tamis import TamisClassifier, io

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# %%
# A file
# ------
# ``io.save`` writes JSON and arrays, versioned and checksummed; loading runs no code. For comparison, the sizes of two
# pickles, which run code when they are loaded.

model = TamisClassifier(max_features=5, max_pairs=2, max_instances=0, cv=3, random_state=0).fit(X_train, y_train)
peers = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train),
    "random forest": RandomForestClassifier(50, random_state=0).fit(X_train, y_train),
}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.tamis"
    io.save(model, path)
    sizes = {"tamis": path.stat().st_size}
    loaded = io.load(path)
same = np.array_equal(loaded.decision_function(X_test), model.decision_function(X_test))
print(f"the loaded model decides the same: {same}")
sizes |= {name: len(pickle.dumps(peer)) for name, peer in peers.items()}
for name, fitted in {"tamis": model, **peers}.items():
    print(f"{name:20} {sizes[name] / 1024:7.1f} KiB, test accuracy {fitted.score(X_test, y_test):.3f}")

# %%
# The kept columns are enough
# ---------------------------
# A dict with these columns and no others.

names = X.columns[model.features_]
few = {name: X_test[name].to_numpy() for name in names}
same = np.array_equal(model.predict(few), model.predict(X_test))
print(f"reads {', '.join(names)}; predictions from these columns are the same: {same}")

# %%
# A scorecard
# -----------
# Every curve is a table of ranges and whole points. Here 600 points are odds of 50 benign to 1 malignant tumour, and 20
# points more double these odds. ``card.save("card.csv")`` writes the tables to a file.

card = model.to_scorecard(base_points=600, base_odds=50, pdo=20, good="benign")
print(card)
print(card.to_frame().head(12).to_string(index=False))

# %%
# Rounding to whole points loses little, and is measured on rows that the model has not seen.

print(card.rounding_loss(X_test, y_test))

# %%
# The points of all ranges of the main feature, and the points of test rows by class.

table = max(card.features, key=lambda part: np.ptp(part.points))
(axis,) = table.axes
points = card.points(X_test)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
low, high = X_train[axis.name].min(), X_train[axis.name].max()
left.stairs(table.points[: len(axis)], [low, *axis.cuts, high], baseline=None, color="#0072B2", linewidth=2)
left.axhline(0, color="0.6", linewidth=0.8)
left.set(xlabel=axis.name, ylabel="points")
bins = np.linspace(points.min(), points.max(), 30)
for label, colour in (("benign", "#0072B2"), ("malignant", "#D55E00")):
    right.hist(points[y_test == label], bins, label=label, color=colour, alpha=0.7)
right.set(xlabel="total points", ylabel="test rows")
right.legend()
plt.show()
