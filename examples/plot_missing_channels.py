"""
Channels that are missing
=========================

This example shows how to train and score where samples lack whole channels: a panel that was not ordered, an image
that was never taken. ``AbsentMKLClassifier`` fills nothing in. Beside it stand filling kernels with zeros, filling
cells with means, and one classifier for each channel. The six channels are made up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import AbsentMKLClassifier, ChannelBaselineClassifier, channels


def draw(seed, lacking, n=200, n_test=800):
    """Six channels of two columns; every sample lacks the same number of them, chosen at random."""
    rng = np.random.default_rng(seed)
    total = n + n_test
    y = np.arange(total) % 2
    sign, views = 2 * y - 1, {}
    for name in ("scan", "ecg", "gait"):  # classes are rings of different radius
        angle, radius = rng.uniform(0, 2 * np.pi, total), 1 + 0.5 * sign + 0.45 * rng.normal(size=total)
        views[name] = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    for name in ("blood", "urine", "history"):  # classes are shifted
        views[name] = rng.normal(size=(total, 2)) + 0.6 * sign[:, None]
    present = rng.random((total, len(views))).argsort(axis=1) >= lacking
    X, kernels = channels(views, present=present)
    return X[:n], y[:n], X[n:], y[n:], kernels


# %%
# A table with blanks
# -------------------
# ``channels`` joins the views and makes one kernel for each. What a sample lacks is NaN in the table.

X, y, X_test, y_test, kernels = draw(0, lacking=3)
clf = AbsentMKLClassifier(kernels=kernels, calibration=None).fit(X, y)
print(f"{np.isnan(X).mean():.0%} of the cells are missing, in {len(clf.patterns_)} patterns")
for share in clf.explain(X_test[:1]).channels_of(0):
    low, middle, high = share.typical[0]
    text = f"{share.contribution[0]:+.2f}" if share.present else "absent"
    print(f"{share.channel:8} {text:7} where it is there: {middle:+.2f} ({low:+.2f} to {high:+.2f})")

# %%
# More and more missing
# ---------------------
# Four draws for each number of missing channels, 200 training and 800 test samples each.

models = {
    "absent MKL": lambda k: AbsentMKLClassifier(kernels=k, calibration=None),
    "plain sum of what is there": lambda k: AbsentMKLClassifier(kernels=k, program="sum", calibration=None),
    "kernels filled with zeros": lambda k: AbsentMKLClassifier(kernels=k, program="zero_filling", calibration=None),
    "one classifier per channel": lambda k: ChannelBaselineClassifier("fusion", kernels=k, calibration=None),
    "cells filled with means, SVC": lambda k: make_pipeline(SimpleImputer(), StandardScaler(), SVC()),
}
numbers, draws = (0, 1, 2, 3, 4), 4
accuracy = np.zeros((len(models), len(numbers), draws))
for j, lacking in enumerate(numbers):
    for seed in range(draws):
        X, y, X_test, y_test, kernels = draw(seed, lacking)
        for i, make in enumerate(models.values()):
            accuracy[i, j, seed] = make(kernels).fit(X, y).score(X_test, y_test)
for name, values in zip(models, accuracy.mean(axis=2)):
    print(f"{name:30}", values.round(3))

# %%
# The figure
# ----------
# All become less accurate with fewer channels. One classifier per channel is best on this table, in which channels do
# not interact. The others lie within a point or two of each other, which is as much as draws differ (small points):
# do not expect learned weights to be better. In addition, absent MKL is one model whose parts add up over the
# channels that a sample has.

figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
colours = ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#000000")
for k, (name, values) in enumerate(zip(models, accuracy)):
    place = np.array(numbers) + 0.06 * (k - 2)
    ax.plot(place, values.mean(axis=1), "osD^v"[k] + ("-", "--", "-.", ":", "--")[k], color=colours[k], label=name)
    ax.scatter(np.repeat(place, draws), values.ravel(), s=6, color=colours[k], alpha=0.6)
ax.set(xlabel="channels that every sample lacks, of six", ylabel="accuracy on test samples", xticks=numbers)
ax.legend(frameon=False, loc="lower left")
plt.show()
