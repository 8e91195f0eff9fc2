"""
Probabilities and class weights for a rare event
================================================

This example shows what to expect of probabilities when few rows are positive, as in credit scoring, and what
``class_weight`` does and does not change. The table is made up: about one loan in eight defaults. Shown are the
reliability of the probabilities, the KS statistic, and the cost of a cut.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tamis import TamisClassifier
from tamis.explain import measures
from tamis.views.plots import KSCurveDisplay

rng = np.random.default_rng(1)
n = 9000
X = pd.DataFrame({
    "income": rng.lognormal(10.3, 0.5, n).round(-2),
    "debt ratio": rng.beta(2, 4, n).round(3),
    "months since delay": np.minimum(rng.exponential(40, n), 120).round(),
    "age": rng.uniform(20, 75, n).round(),
    "accounts": rng.poisson(6, n).astype(float),
    "purpose": rng.choice(["car", "house", "card", "other"], n, p=[0.3, 0.2, 0.35, 0.15]),
})  # fmt: skip
log_odds = (
    -3.4
    - 0.8 * np.log(X["income"] / 30000)
    + 6.0 * np.maximum(X["debt ratio"] - 0.35, 0)
    + 2.2 * np.exp(-X["months since delay"] / 12)
    + 0.5 * (X["purpose"] == "card")
)
y = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "default", "paid")
X_train, y_train, X_test, y_test = X[:3000], y[:3000], X[3000:], y[3000:]
defaulted = y_test == "default"
print(f"{np.mean(y_train == 'default'):.1%} of the training rows and {defaulted.mean():.1%} of the test rows default")

# %%
# Three fits
# ----------
# Without and with class weights, and a logistic regression with dummies. ``oriented`` changes the sign so that a
# positive decision means default.

options = {"max_instances": 10, "max_features": 5, "max_pairs": 2, "random_state": 0}
plain = TamisClassifier(**options).fit(X_train, y_train).oriented("default")
weighted = TamisClassifier(**options, class_weight="balanced").fit(X_train, y_train).oriented("default")
dummies = pd.get_dummies(X, dtype=float)
peer = make_pipeline(StandardScaler(), LogisticRegression()).fit(dummies[:3000], y_train == "default")
print("kept:", ", ".join(X.columns[plain.features_]))

probability = {
    "tamis": plain.predict_proba(X_test)[:, 1],
    "tamis, balanced weights": weighted.predict_proba(X_test)[:, 1],
    "logistic regression": peer.predict_proba(dummies[3000:])[:, 1],
    "truth": (1 / (1 + np.exp(-log_odds)))[3000:].to_numpy(),
}
print(f"{'':24}  AUC    KS  Brier  mean probability")
for name, p in probability.items():
    auc, ks = measures.auc(defaulted, p).value, measures.ks(defaulted, p).value
    print(f"{name:24} {auc:.3f} {ks:.3f} {brier_score_loss(defaulted, p):.4f} {p.mean():.3f}")

# %%
# What class weights change
# -------------------------
# Weights move the boundary: with them the classifier predicts *default* far more often, and finds more of the defaults.
# The probabilities stay on the scale of the data, so that they can be used in both cases.

for name, model in {"plain": plain, "balanced": weighted}.items():
    said = model.predict(X_test) == "default"
    print(
        f"{name:9} says default of {said.mean():.1%} of the rows and finds {said[defaulted].mean():.0%} of the defaults"
    )

# %%
# Reliability and KS
# ------------------
# Left: rows in ten groups of rising probability, and the share that defaulted; the diagonal is perfect. Right: the
# distributions of the decisions about rows that defaulted and that did not, and the largest distance between them.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
left.plot([0, 0.5], [0, 0.5], color="0.6", linewidth=1)
for (name, p), style, colour in zip(probability.items(), ("o-", "s--", "^-."), ("#0072B2", "#D55E00", "#009E73")):
    share, mean = calibration_curve(defaulted, p, n_bins=10, strategy="quantile")
    left.plot(mean, share, style, color=colour, label=name)
left.set(xlabel="mean probability of default in the group", ylabel="share that defaulted", xlim=(0, 0.5), ylim=(0, 0.5))
left.legend(frameon=False)
KSCurveDisplay.from_estimator(plain, X_test, y_test, pos_label="default", ax=right)
plt.show()

# %%
# A cut by cost
# -------------
# With reliable probabilities a decision needs no retraining: if a missed default costs ten times as much as a loan
# that is refused without need, refuse from a probability of 1/11 on.

p = probability["tamis"]
for words, refused in {"1/2": p > 1 / 2, "1/11": p > 1 / 11}.items():
    cost = 10 * np.sum(~refused & defaulted) + np.sum(refused & ~defaulted)
    print(f"refused from {words:4} on: {refused.mean():.1%} of the loans, cost {cost / len(p):.3f} for each loan")
