"""
A first model, from front to back
=================================

This example shows how to fit ``TamisClassifier``, what it keeps of a table, how to read it, and how it compares with
two models that everyone knows. The table is the breast-cancer table of scikit-learn: 30 measures of cell nuclei of
569 women.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import TamisClassifier
from tamis.views.plots import ImportanceDisplay, ShapeFunctionDisplay

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

# %%
# Three budgets
# -------------
# The model may keep at most ten features, five pairs of them that act together, and ten training cases. There is
# nothing else to choose. Pairs and cases are kept only if they pay on held-out rows of the training part; here none
# does, and the model is a sum of ten curves.

clf = TamisClassifier(max_features=10, max_pairs=5, max_instances=10, random_state=0).fit(X_train, y_train)

for what, kept in clf.summary().items():
    print(f"{what:14} {kept}")
print(f"{'kept':14} {', '.join(X.columns[clf.features_])}")

# %%
# Rows that the model has not seen
# --------------------------------
# Three folds of all rows, each held out once, for this model, and for a logistic regression and a support vector
# machine on all 30 features. The differences are a few rows: three rows in 569 are half a point.

peers = {
    "tamis, 10 features": clf,
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "SVC": make_pipeline(StandardScaler(), SVC()),
}
folds = StratifiedKFold(3, shuffle=True, random_state=0)
for name, model in peers.items():
    found = cross_validate(model, X, y, cv=folds, scoring=["accuracy", "roc_auc"])
    print(f"{name:20} accuracy {found['test_accuracy'].mean():.3f}, AUC {found['test_roc_auc'].mean():.3f}")

# %%
# What the decision depends on
# ----------------------------
# The decision is the log-odds of *malignant*. Bars are shares of the features in its variation over the training rows.

ImportanceDisplay.from_estimator(clf)
plt.show()

# %%
# Curves
# ------
# What a feature contributes over its range, with the training rows below: the six with the largest contributions to
# decisions on test rows. A curve is all that its feature does, and zero on average over the training rows. The base
# value and all curves add up to the decision.

explanation = clf.explain(X_test)
moves = dict(zip(explanation.features, explanation.by_feature[:, 0].std(axis=0)))
ShapeFunctionDisplay.from_estimator(clf, X_train, features=sorted(moves, key=moves.get, reverse=True)[:6])

off = np.abs(explanation.base_value + explanation.by_part.sum(axis=2) - clf.decision_function(X_test)[:, None]).max()
print(f"largest difference between the sum of the parts and the decision: {off:.0e}")
