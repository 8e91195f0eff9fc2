"""
Budgets against accuracy
========================

This example shows how many cases and features a table needs: how to draw a score over both budgets, to let the
one-standard-error rule take the smallest model that is not clearly worse than the best, and to read the path of
``TamisClassifier`` over the number of features.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tamis import EM2NOLCClassifierCV, TamisClassifier
from tamis.views.plots import BudgetPathDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# %%
# One search, two rules
# ---------------------
# ``EM2NOLCClassifierCV`` fits all budgets up to the given ones on folds of the training rows. (It searches bandwidth
# and ridge as well, which are fixed here to save time.) ``rule="best"`` takes the budgets with the best held-out
# score. ``rule="one_se"`` takes the smallest model whose score is within one standard error of it.

options = {"bandwidths": (1.0,), "alphas": (0.01,), "scoring": "log_loss", "random_state": 0}
searches = {rule: EM2NOLCClassifierCV(5, 10, rule=rule, **options).fit(X_train, y_train) for rule in ("best", "one_se")}

for rule, search in searches.items():
    loss = log_loss(y_test, search.predict_proba(X_test))
    print(
        f"{rule:8} most cases {search.max_instances_}, most features {search.max_features_}: "
        f"test accuracy {search.score(X_test, y_test):.3f}, test log-loss {loss:.3f}"
    )

# %%
# A logistic regression on all 30 features as a baseline.

peer = make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train)
print(
    f"logistic regression, 30 features: test accuracy {peer.score(X_test, y_test):.3f}, "
    f"test log-loss {log_loss(y_test, peer.predict_proba(X_test)):.3f}"
)

# %%
# The map
# -------
# Log-loss on held-out folds over all budgets, the choice of the one-standard-error rule framed. Features matter up to
# about four; beyond that, and beyond a few cases, the map is nearly flat. The smaller model is not clearly worse on
# folds, but has a larger log-loss on these test rows.

BudgetPathDisplay.from_estimator(searches["one_se"], score="log_loss")
plt.show()

# %%
# Along one line
# --------------
# The same numbers for three numbers of cases: the loss over features.

path = searches["best"].path_
figure, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for cases, style in ((1, "o-"), (2, "s--"), (5, "^-.")):
    row = path["max_instances"].tolist().index(cases)
    ax.plot(path["max_features"], path["log_loss"][row], style, label=f"{cases} case{'s' if cases > 1 else ''}")
ax.set(xlabel="most features", ylabel="log-loss on held-out folds", xscale="log", ylim=(0, None))
ax.set_xticks(path["max_features"], path["max_features"])
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()

# %%
# The path of ``TamisClassifier``
# -------------------------------
# ``path`` orders the features and gives the loss of light models on held-out rows, with the standard error of its
# difference from the smallest loss. Each fold orders the features by itself. ``max_features="auto"`` keeps the smallest
# number within one such error of the smallest loss (the vertical line).

clf = TamisClassifier(max_features="auto", random_state=0).fit(X_train, y_train)
path = clf.path_
print(f"auto keeps {len(clf.features_)} features: test log-loss {log_loss(y_test, clf.predict_proba(X_test)):.3f}")
print("the first five:", ", ".join(X.columns[list(path["features"][4])]))

figure, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
ax.errorbar(path["n_features"], path["loss"], path["error"], fmt="o-", color="#0072B2", markersize=4)
ax.axvline(len(clf.features_), color="0.6", linewidth=0.8)
ax.set(xlabel="features", ylabel="log-loss on held-out folds", ylim=(0, None))
plt.show()
