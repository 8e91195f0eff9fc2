"""
One patient, one decision, all its summands
===========================================

This example shows how to read a single decision as a sum of contributions. The table is made up, so that the true
log-odds are known and the contributions can be compared with them. It has a category and missing cells.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from tamis import TamisClassifier
from tamis.views.plots import ContributionDisplay

rng = np.random.default_rng(7)
n = 1200
X = pd.DataFrame({
    "age": rng.uniform(30, 85, n).round(),
    "systolic": rng.normal(135, 18, n).round(),
    "crp": rng.gamma(2.0, 4.0, n).round(1),
    "stage": rng.choice(["I", "II", "III"], n, p=[0.5, 0.3, 0.2]),
    "height": rng.normal(170, 9, n).round(),
    "potassium": rng.normal(4.2, 0.4, n).round(1),
})  # fmt: skip
X.index = [f"patient {i:04d}" for i in range(n)]

# %%
# The truth: risk rises with age beyond sixty, is U-shaped in blood pressure, rises with CRP and jumps with the stage.
# Height and potassium do nothing.

truth = pd.DataFrame({
    "age": 0.09 * np.maximum(X["age"] - 60, 0),
    "systolic": 0.0022 * (X["systolic"] - 130) ** 2,
    "crp": 0.20 * X["crp"],
    "stage": X["stage"].map({"I": 0.0, "II": 0.8, "III": 2.0}),
})  # fmt: skip
log_odds = truth.sum(axis=1) - 5.0
y = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "event", "no event")
X.loc[rng.random(n) < 0.1, "crp"] = np.nan  # one in ten was not measured

train, test = np.arange(n) < 800, np.arange(n) >= 800
clf = TamisClassifier(max_features=4, max_pairs=2, max_instances=3, random_state=0).fit(X[train], y[train])
clf = clf.oriented("event")  # so that + speaks for the event
print("kept:", ", ".join(X.columns[clf.features_]))

# %%
# For comparison, a logistic regression with dummies and the median in place of missing cells, and the true risk, which
# is the best possible.

filled = pd.get_dummies(X).astype(float).fillna(X["crp"].median())
filled = (filled - filled[train].mean()) / filled[train].std()
peer = LogisticRegression().fit(filled[train], y[train] == "event")
happened = y[test] == "event"
for name, score in {
    "tamis": clf.decision_function(X[test]),
    "logistic regression": peer.decision_function(filled[test]),
    "true log-odds": log_odds[test],
}.items():
    print(f"{name:20} AUC {roc_auc_score(happened, score):.3f}")

# %%
# From the base value to the decision
# -----------------------------------
# One row of the test part. Read from the bottom up: each summand moves the base value, to the decision at the top. What
# a feature adds is zero on average over the training rows. The truth is a sum over single features, so that no pair and
# no case pays on held-out rows, and none is kept.

patient = X[test].index[int(np.argsort(clf.decision_function(X[test]))[-40])]
explanation = clf.explain(X.loc[[patient]])
print(X.loc[patient].to_string())
print(f"probability of an event: {clf.predict_proba(X.loc[[patient]])[0, list(clf.classes_).index('event')]:.2f}")

ContributionDisplay.from_explanation(explanation, data=X.loc[[patient]])
plt.show()

# %%
# As a table: a line for every summand. The base value and all contributions add up to the decision.

table = explanation.to_frame()
print(table[["part", "name", "value", "similarity", "contribution"]].round(2).fillna("").to_string(index=False))
print(f"sum {table['contribution'].sum():.6f}, decision {clf.decision_function(X.loc[[patient]])[0]:.6f}")

# %%
# All test rows at once
# ---------------------
# A point is a row, its colour the value of the feature (grey: a category, a pair, or a missing cell). Blood pressure
# shows both of its ends on the right.

ContributionDisplay.from_estimator(clf, X[test], kind="beeswarm")
plt.show()

# %%
# Against the truth
# -----------------
# Curves that the model found (lines) and those that made the data (dashes), both with mean zero over training rows.
# They agree up to steps and small waves; they differ most at the ends, where rows are few.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
made = {
    "age": lambda v: 0.09 * np.maximum(v - 60, 0),
    "systolic": lambda v: 0.0022 * (v - 130) ** 2,
    "crp": lambda v: 0.20 * v,
}
for ax, (name, effect) in zip(axes, made.items()):
    known = X.loc[train, name].dropna()
    grid, shape = clf.curve(name)
    inside = (grid >= known.quantile(0.01)) & (grid <= known.quantile(0.99))
    centre = np.interp(known, grid, shape).mean()
    ax.plot(grid[inside], shape[inside] - centre, color="#0072B2", label="found")
    ax.plot(grid[inside], (effect(grid) - effect(known).mean())[inside], "--", color="black", label="true")
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set_xlabel(name)
axes[0].set_ylabel("added to the log-odds")
axes[0].legend(frameon=False)
plt.show()
