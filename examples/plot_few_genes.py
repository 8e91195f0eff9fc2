"""
A few genes out of thousands
============================

This example shows how to find the few columns that count in a table with many more columns than rows. Of 2000
made-up genes of 60 patients five carry a signal. ``L0MKLClassifier`` puts a kernel on each gene and keeps the few
with a weight, and is a scikit-learn selector.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import L0MKLClassifier
from tamis.views.plots import FeaturePathDisplay

TRUE = [f"gene {k}" for k in range(5)]


def draw(seed, n=60, n_test=500, genes=2000):
    """Tables by name: the classes are 1.8 standard deviations apart in five genes, and equal in all others."""
    rng = np.random.default_rng(seed)
    y = np.arange(n + n_test) % 2
    X = rng.normal(size=(n + n_test, genes))
    X[:, :5] += 0.9 * np.where(y == 1, 1, -1)[:, None] * [1, -1, 1, -1, 1]
    mixed = rng.permutation(genes)  # so that the place of a gene says nothing
    names = [f"gene {k}" for k in mixed]
    X = dict(zip(names, X[:, mixed].T))
    tables = ({name: column[part] for name, column in X.items()} for part in (slice(n), slice(n, None)))
    return *tables, y[:n], y[n:]


# %%
# One table
# ---------

X, X_test, y, y_test = draw(0)
clf = L0MKLClassifier(max_features=8, calibration=None).fit(X, y)
kept = clf.get_feature_names_out()
print("kept:", ", ".join(kept))
print(f"{len(set(kept) & set(TRUE))} of the 5 genes with a signal, {len(set(kept) - set(TRUE))} without")

# %%
# ``feature_path_`` ranks the genes, including those that are not kept. The curve fits the model to the first one, two,
# ... of them and scores it on test rows. (The ranking is made on the training rows alone, so that this is fair.)

display = FeaturePathDisplay.from_estimator(clf, X, y, X_test, y_test, most=8)
names = [list(X)[k] for k in clf.feature_path_[:8]]
display.ax_.set_xticks(range(1, len(names) + 1), [f"{k}\n{name}" for k, name in enumerate(names, 1)], fontsize="small")
display.ax_.set_xlabel("number of genes on offer, and the one that was added")
plt.show()

# %%
# Ten tables
# ----------
# One table may be luck. Over ten tables: how many of the five are kept, how many others, and the accuracy,
# with an SVM on all genes and one on the five genes with the largest F statistic. The latter knows their number
# and tests for a shift of means, which is all that this table has: it is a little better.
# ``L0MKLClassifier`` finds the number by itself. The second line uses its genes in the same SVM, in a pipeline.

models = {
    "L0MKL": lambda: L0MKLClassifier(max_features=8, calibration=None),
    "L0MKL, then SVC": lambda: make_pipeline(
        L0MKLClassifier(max_features=8, calibration=None), StandardScaler(), SVC(kernel="linear")
    ),
    "best 5 by F, then SVC": lambda: make_pipeline(SelectKBest(f_classif, k=5), StandardScaler(), SVC(kernel="linear")),
    "SVC on all": lambda: make_pipeline(StandardScaler(), SVC(kernel="linear")),
}
accuracy = {name: [] for name in models}
right, wrong = [], []
for seed in range(10):
    X, X_test, y, y_test = draw(seed)
    names = np.array(list(X))
    table, other = np.column_stack(list(X.values())), np.column_stack(list(X_test.values()))
    for name, make in models.items():
        model = make().fit(table, y)
        accuracy[name].append(model.score(other, y_test))
        if name == "L0MKL":
            kept = set(names[model.features_])
            right.append(len(kept & set(TRUE)))
            wrong.append(len(kept - set(TRUE)))
print(f"kept on average: {np.mean(right):.1f} of the 5, and {np.mean(wrong):.1f} others of 1995")
for name, found in accuracy.items():
    print(f"{name:22} {np.mean(found):.3f}")

figure, (left, ax) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1, 1.2])
left.bar(range(10), right, color="#0072B2", label="with a signal")
left.bar(range(10), wrong, bottom=right, color="#D55E00", hatch="///", edgecolor="white", label="without")
left.axhline(5, color="black", linestyle=":", linewidth=1)
left.set(xlabel="table", ylabel="genes kept", xticks=range(10), ylim=(0, 10.5))
left.legend(frameon=False, loc="upper left", ncols=2)
for k, found in enumerate(accuracy.values()):
    ax.scatter(found, np.full(10, k), s=14, color="0.6")
    ax.scatter(np.mean(found), k, marker="D", s=50, color="#0072B2")
ax.set_yticks(range(len(accuracy)), accuracy)
ax.set(xlabel="accuracy on 500 test rows (diamond: mean)", xlim=(0.5, 1.01))
ax.invert_yaxis()
plt.show()
