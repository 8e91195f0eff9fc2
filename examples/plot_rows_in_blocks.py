"""
Rows in blocks
==============

This example shows how to fit a model to rows that never meet in memory. ``EM2NOLCClassifier`` needs sums over the
rows and nothing else that grows with them, so it takes blocks from a function, a memory map, or one block after
another, and sums of several places can be added up. The model is that of the same rows in one array.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from tamis import EM2NOLCClassifier, Plan, Statistics

COLUMNS = [f"x{k}" for k in range(10)]


def block(seed, n=3000):
    """One block of rows: three of ten columns count, none of them along a straight line."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(COLUMNS)))
    log_odds = 3 * np.sin(1.5 * X[:, 0]) + 2 * (np.abs(X[:, 1]) - 0.8) + 2 * np.tanh(2 * X[:, 2])
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "yes", "no")


def blocks():
    """All rows, in eight blocks; called again for every pass."""
    return (block(seed) for seed in range(8))


X_test, y_test = block(100)
options = {"max_instances": 10, "max_features": 3, "engine": "statistics", "random_state": 0}

# %%
# Four ways to the same model
# ---------------------------

whole, labels = (np.concatenate(parts) for parts in zip(*blocks()))
models = {"one array": EM2NOLCClassifier(**options).fit(whole, labels)}
models["a function that gives blocks"] = EM2NOLCClassifier(**options).fit(blocks)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "rows.npy"
    np.save(path, whole)
    models["a memory map"] = EM2NOLCClassifier(**options).fit(np.load(path, mmap_mode="r"), labels)

streamed = EM2NOLCClassifier(**options)
for X, y in blocks():
    streamed.partial_fit(X, y, classes=["no", "yes"])
models["partial_fit, block by block"] = streamed

# %%
# ``partial_fit`` reads rows once, so that its first block decides on ranges and candidate cases; the other ways read
# all rows first. Its model therefore differs a little, and so do its kept cases.

reference = models["one array"].decision_function(X_test)
for name, model in models.items():
    off = np.abs(model.decision_function(X_test) - reference).max()
    kept = [COLUMNS[k] for k in model.features_]
    print(f"{name:30} keeps {', '.join(kept)}; accuracy {model.score(X_test, y_test):.3f}; differs by {off:.0e}")
peer = LogisticRegression().fit(whole, labels)
print(f"logistic regression            accuracy {peer.score(X_test, y_test):.3f}")

# %%
# Sums of several places
# ----------------------
# Places that may not share rows can share sums. The plan (ranges, candidates) is made first, from rows that may be
# shown. The order of the places does not matter.

plan = Plan.of(*block(200))
sums = [Statistics(plan).update(X, y) for X, y in blocks()]
forth = EM2NOLCClassifier(10, 3, calibration=None).fit_statistics(sum(sums[1:], sums[0]))
back = EM2NOLCClassifier(10, 3, calibration=None).fit_statistics(sum(sums[-2::-1], sums[-1]))
off = np.abs(forth.decision_function(X_test) - back.decision_function(X_test)).max()
print(f"sums: accuracy {forth.score(X_test, y_test):.3f}; added up in the other order it differs by {off:.0e}")

# %%
# The figure
# ----------
# The shapes of the three kept columns from one array (line) and from blocks (dots on it), and from ``partial_fit``
# (dashes).

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
styles = {"one array": ("-", "#0072B2"), "a function that gives blocks": (".", "#D55E00")}
styles["partial_fit, block by block"] = ("--", "#000000")
for ax, column in zip(axes, models["one array"].features_):
    for name, (style, colour) in styles.items():
        grid, shape = models[name].curve(int(column))
        inside = np.flatnonzero(np.abs(grid) < 3)[:: 12 if style == "." else 1]
        centred = shape - np.interp(X_test[:, column], grid, shape).mean()
        ax.plot(grid[inside], centred[inside], style, color=colour, label=name)
    ax.set_xlabel(COLUMNS[column])
axes[0].set_ylabel("added to the decision")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()
