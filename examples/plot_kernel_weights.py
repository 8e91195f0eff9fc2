"""
Weighing kernels
================

This example shows what learned weights of kernels are worth. ``SimpleMKLClassifier`` finds the weights and the
support vector machine together, and its duality gap certifies that no other weights do better on its objective.
Beside it stand the plain average of the same kernels and the best single one, chosen on folds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import AverageMKLClassifier, SimpleMKLClassifier, bandwidths
from tamis.views.plots import ConvergenceDisplay

WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)


def table(n, noise_columns, rng):
    """Two moons in the first two columns, and noise in the others."""
    X, y = make_moons(n, noise=0.25, random_state=rng.integers(1 << 31))
    return np.column_stack([X, rng.normal(size=(n, noise_columns))]), y


# %%
# Kernels on every column
# -----------------------
# Five Gaussians on each column and five on all columns together: with eight columns of noise these are 55 kernels.
# The problem is convex, so the weights are those of the optimum.

rng = np.random.default_rng(0)
X, y = table(200, 8, rng)
X_test, y_test = table(2000, 8, rng)
clf = SimpleMKLClassifier(C=10, kernels=bandwidths(WIDTHS, on="both"), calibration=None).fit(X, y)
print(f"{len(clf.kernel_names_)} of {5 * 11} kernels have a weight; relative duality gap {clf.duality_gap_:.1e}")

# %%
# The weight does not show everything. The narrow kernel on all ten columns has the largest one, but it is next to
# zero between any two rows that differ: it lets single training rows be off, and adds nothing to decisions about new
# ones. Those come from the two columns with the moons.

spread = clf.explain(X_test).by_kernel[:, 0].std(axis=0)
order = np.argsort(spread)
names = [clf.kernel_names_[k] for k in order]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.0), layout="constrained", sharey=True)
axes[0].barh(names, clf.kernel_weights_[order], color="#0072B2")
axes[0].set(xlabel="weight (they add up to one)")
axes[1].barh(names, spread[order], color="#D55E00")
axes[1].set(xlabel="standard deviation of its share in\nthe decision about test rows")
figure.suptitle("x0 and x1 hold the moons, all others are noise", fontsize="medium")
plt.show()

# %%
# How it got there
# ----------------

ConvergenceDisplay.from_estimator(clf)
plt.show()

# %%
# Is it worth it?
# ---------------
# Three draws of the data for each number of noise columns (points) and their means (lines); two thousand test rows
# each. Where both columns count, learning weights costs about a point, and the average and the best single width are
# more accurate. With columns of noise the learned weights stay accurate and the others do not. (The single kernel is
# on all columns together, so that it cannot leave any out.)

numbers = (0, 2, 8, 20)
kernels = bandwidths(WIDTHS, on="both")
scores = {"SimpleMKL": [], "average of the kernels": [], "best single width (SVC)": []}
for noise in numbers:
    found = {name: [] for name in scores}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        (X, y), (X_test, y_test) = table(200, noise, rng), table(2000, noise, rng)
        scale = StandardScaler().fit(X)
        single = GridSearchCV(SVC(C=10), {"gamma": [0.5 / width**2 for width in WIDTHS]}, cv=5)
        single.fit(scale.transform(X), y)
        found["best single width (SVC)"].append(single.score(scale.transform(X_test), y_test))
        for name, kind in {"SimpleMKL": SimpleMKLClassifier, "average of the kernels": AverageMKLClassifier}.items():
            found[name].append(kind(C=10, kernels=kernels, calibration=None).fit(X, y).score(X_test, y_test))
    for name in scores:
        scores[name].append(found[name])

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
for (name, values), style in zip(scores.items(), ("o-", "s--", "^:")):
    values = np.array(values)
    line = ax.plot(range(len(numbers)), values.mean(axis=1), style, label=name)[0]
    ax.scatter(np.repeat(range(len(numbers)), 3), values.ravel(), s=8, color=line.get_color(), alpha=0.5)
    print(f"{name:25}", values.mean(axis=1).round(3))
ax.set_xticks(range(len(numbers)), numbers)
ax.set(xlabel="columns of noise in addition to the two that count", ylabel="accuracy on test rows")
ax.legend(frameon=False)
plt.show()
