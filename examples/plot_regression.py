"""
A number in place of a class
============================

This example shows how to use ``TamisRegressor``: the parts of the classifier by least squares, so that every prediction
is a base value plus contributions in the units of y. The table is the diabetes table of scikit-learn: ten measures of
442 patients, and a score of how far the disease had gone a year later.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tamis import TamisRegressor
from tamis.views.plots import ContributionDisplay, ShapeFunctionDisplay

NAMES = {
    "bmi": "body mass index", "bp": "blood pressure", "s1": "cholesterol", "s2": "LDL", "s3": "HDL",
    "s4": "cholesterol / HDL", "s5": "log triglycerides", "s6": "glucose",
}  # fmt: skip
X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X.rename(columns=NAMES)
X["sex"] = X["sex"].map({1.0: "1", 2.0: "2"})  # two unnamed codes, not a number

# %%
# Compared with ridge regression and boosting
# -------------------------------------------
# Each row is predicted once, by models that have not seen it (five folds). The error is the root of the mean square,
# in units of y, whose standard deviation is 77. On this table six curves are about as good as the linear model with all
# ten measures: effects are nearly straight lines, and rows are few.

reg = TamisRegressor(max_features=6, max_pairs=2, max_instances=5, random_state=0)
numbers = X.assign(sex=X["sex"].astype(float))
folds = KFold(5, shuffle=True, random_state=0)
held_out = {
    "tamis, 6 features": cross_val_predict(reg, X, y, cv=folds),
    "ridge": cross_val_predict(make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 3, 20))), numbers, y, cv=folds),
    "boosting": cross_val_predict(HistGradientBoostingRegressor(random_state=0), numbers, y, cv=folds),
}
for name, predicted in held_out.items():
    error = np.sqrt(np.mean((predicted - y) ** 2))
    print(f"{name:18} error {error:.1f}, R2 {1 - error**2 / y.var(ddof=0):.3f}")

# %%
# The curves
# ----------
# Kept features over their ranges, in units of y; zero is the mean over the training rows, which are marked below.

X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
reg.fit(X_train, y_train)
print("kept:", ", ".join(X.columns[reg.features_]), "; base value", np.round(reg.intercept_, 1))
ShapeFunctionDisplay.from_estimator(reg, X_train)
plt.show()

# %%
# One patient
# -----------
# From the base value to the prediction, in units of y.

row = int(np.argmax(reg.predict(X_test)))
patient = X_test.iloc[[row]]
ContributionDisplay.from_estimator(reg, patient)
print(f"predicted {reg.predict(patient)[0]:.0f}, observed {y_test.iloc[row]:.0f}")

# %%
# Observed against predicted
# --------------------------
# The held-out predictions of all rows. The cloud is wide: half of the variance is not in these ten measures, for any
# of the three.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained", sharey=True)
for ax, (name, predicted) in zip(axes, held_out.items()):
    ax.scatter(predicted, y, s=9, color="#0072B2", alpha=0.6, linewidths=0)
    ax.axline((150, 150), slope=1, color="black", linewidth=0.8)
    ax.set(xlabel="predicted", title=name, xlim=(0, 350), ylim=(0, 360))
axes[0].set_ylabel("observed")
plt.show()
