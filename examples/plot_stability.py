"""
Is the selection stable?
========================

This example shows how to find out whether other rows would have led to the same features. ``StabilityDisplay`` fits
the model on folds and shows which fold chose what, and how the chosen features are correlated: two folds may choose
different columns that say the same.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import EM2NOLCClassifier
from tamis.views.plots import StabilityDisplay
from tamis.views.studies import stability_across_folds

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
folds = StratifiedKFold(3, shuffle=True, random_state=0)

# %%
# Which fold chose what
# ---------------------
# A model of three cases and five features, fitted to the training rows of five folds. The Jaccard index is the share
# of common features of two folds, on average; the second number is corrected for chance; the third counts a
# feature that was chosen in another fold by a correlated one. Radius, perimeter and area of a nucleus are nearly the
# same measure, and which of them is chosen matters little.

clf = EM2NOLCClassifier(max_instances=3, max_features=5, calibration=None, random_state=0)
StabilityDisplay.from_estimator(clf, X, y, cv=5)
plt.show()

# %%
# Over budgets
# ------------
# The same for models of one to eight features, and their accuracy on held-out folds, with a support vector machine
# on all 30. The agreement of the names varies with the budget. With correlated features counted it is more than nine
# tenths throughout: folds exchange columns with the same information.

budgets = (1, 2, 4, 8)
measures = {
    "same features (Jaccard)": "jaccard",
    "beyond chance": "kuncheva",
    "same or correlated features": "correlated",
}
agreement, accuracy = {name: [] for name in measures}, []
for budget in budgets:
    model = EM2NOLCClassifier(3, budget, calibration=None, random_state=0)
    found = stability_across_folds(model, X, y, cv=5)
    for name, measure in measures.items():
        agreement[name].append(getattr(found, measure).value)
    accuracy.append(cross_val_score(model, X, y, cv=folds).mean())
peer = cross_val_score(make_pipeline(StandardScaler(), SVC()), X, y, cv=folds).mean()

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for (name, values), style, colour in zip(agreement.items(), ("o-", "s--", "^-."), ("#0072B2", "#D55E00", "#009E73")):
    left.plot(budgets, values, style, color=colour, label=name)
    print(f"{name:28}", np.round(values, 2))
left.set(xlabel="most features", ylabel="agreement of five folds", ylim=(0, 1.03), xticks=budgets)
left.legend(frameon=False, loc="lower right")
right.plot(budgets, accuracy, "o-", color="#0072B2", label="EM2NOLC, three cases")
right.axhline(peer, color="black", linestyle=":", label="SVC, 30 features")
right.set(xlabel="most features", ylabel="accuracy on held-out folds", xticks=budgets)
right.legend(frameon=False, loc="lower right")
print("accuracy".ljust(28), np.round(accuracy, 3), f"SVC {peer:.3f}")
plt.show()
