"""
Within scikit-learn: pipelines, searches, groups
================================================

This example shows how to use the estimators with the tools of scikit-learn: in ``GridSearchCV``, as a selector
within a pipeline, and with rows that belong together. The table is the wine table of scikit-learn: 13 chemical
measures of 178 wines of three growers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import EM2NOLCClassifier, L0MKLClassifier

data = load_wine(as_frame=True)
X, y = data.data, data.target.map({0: "first", 1: "second", 2: "third"}).to_numpy()
folds = StratifiedKFold(3, shuffle=True, random_state=0)

# %%
# A search over parameters
# ------------------------
# Any parameter of the constructor can be searched. ``shared_support=True`` keeps one set of cases and features for
# all three growers. Frames stay frames, so that the best model knows the names of its columns.

search = GridSearchCV(
    EM2NOLCClassifier(shared_support=True, calibration=None, random_state=0),
    {"max_instances": [3, 12], "max_features": [1, 2, 3, 5, 8]},
    cv=folds,
).fit(X, y)
best = search.best_estimator_
print(search.best_params_, "keeps", ", ".join(X.columns[best.features_]))

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
found = search.cv_results_
for cases, style in ((3, "o-"), (12, "s--")):
    own = found["param_max_instances"] == cases
    mean, spread = found["mean_test_score"][own], found["std_test_score"][own]
    x = np.asarray(found["param_max_features"][own], dtype=float)
    ax.errorbar(x + 0.01 * (cases - 7), mean, spread / np.sqrt(3), fmt=style, capsize=3, label=f"{cases} cases")
ax.set(xlabel="most features", ylabel="accuracy on held-out folds", xticks=[1, 2, 3, 5, 8])
ax.legend(frameon=False, loc="lower right", title="bars: standard errors")
plt.show()

# %%
# A fair score of the search
# --------------------------
# The best of ten scores is optimistic. An outer loop of folds scores the result of the search on rows that it has not
# seen; for comparison, a logistic regression and a support vector machine on all 13 measures.
#
# A selector in a pipeline
# ------------------------
# ``L0MKLClassifier`` selects columns for the next step; within the pipeline it sees training rows only.

small = GridSearchCV(
    EM2NOLCClassifier(6, shared_support=True, calibration=None, random_state=0), {"max_features": [3, 5, 8]}, cv=3
)
models = {
    "searched EM2NOLC": small,
    "L0MKL selects, SVC": make_pipeline(L0MKLClassifier(max_features=5, calibration=None), StandardScaler(), SVC()),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "SVC": make_pipeline(StandardScaler(), SVC()),
}
for name, model in models.items():
    scores = cross_val_score(model, X, y, cv=folds)
    print(f"{name:20} {scores.mean():.3f} (standard error {scores.std() / np.sqrt(3):.3f})")

# %%
# Rows that belong together
# -------------------------
# Suppose that each wine was measured four times, with a little noise. Folds that split the measurements of one wine
# test on rows that are nearly in the training part. ``GroupKFold`` keeps them together, and estimators that use folds
# of their own take ``fit(X, y, groups=...)`` for the same reason. To make the difference plain the growers are now
# given at random to the wines: nothing can be learned, and right scores are about a third to two fifths, the share of
# the largest class.

rng = np.random.default_rng(0)
wine = np.repeat(np.arange(len(X)), 4)
repeated = X.iloc[wine] + 0.05 * X.std().to_numpy() * rng.normal(size=(len(wine), X.shape[1]))
shuffled = rng.permutation(y)[wine]
peer = make_pipeline(StandardScaler(), SVC(C=100))
together = list(GroupKFold(3).split(repeated, groups=wine))
for name, cv in {"rows at random": folds, "wines kept together": together}.items():
    print(f"{name:20} {cross_val_score(peer, repeated, shuffled, cv=cv).mean():.3f}")
