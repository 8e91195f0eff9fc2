"""
Two features that act together
==============================

This example shows what a pair is and how to look at one. In this made-up table the dose helps in warm rooms and
harms in cold ones: the answer hangs on the product of two columns, as in an XOR, and each of them alone says
nothing. A sum of curves cannot represent that; one surface is enough.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tamis import EM2NOLCClassifier, TamisClassifier
from tamis.views.plots import SurfaceDisplay


def log_odds(dose, temperature):
    """Of growing, in truth."""
    return 6.0 * (dose - 5) / 5 * (temperature - 20) / 10


rng = np.random.default_rng(0)
n = 1500
X = pd.DataFrame({
    "dose": rng.uniform(0, 10, n),  # mg
    "temperature": rng.uniform(10, 30, n),  # degrees Celsius
    "light": rng.uniform(0, 100, n),
    "acidity": rng.normal(7, 1, n),
    "density": rng.gamma(3, 1, n),
    "day": rng.integers(1, 366, n).astype(float),
})  # fmt: skip
y = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds(X["dose"], X["temperature"]))), "grows", "shrinks")
X_train, y_train, X_test, y_test = X[:700], y[:700], X[700:], y[700:]

# %%
# Which models represent it
# -------------------------
# An additive model, a sum of one curve per feature, is no better than guessing, and so is a logistic regression. A
# model with pairs, and a support vector machine, whose kernel is on all columns at once, are not. The true
# probabilities are right in as many test rows as the last line shows: no model can be better except by luck.

clf = TamisClassifier(max_features=2, max_pairs=1, max_instances=0, random_state=0).fit(X_train, y_train)
clf = clf.oriented("grows")  # + speaks for it
models = {
    "tamis": clf,
    "additive\n(EM2NOLC)": EM2NOLCClassifier(20, 6, random_state=0).fit(X_train, y_train),
    "logistic\nregression": make_pipeline(StandardScaler(), LogisticRegression()).fit(X_train, y_train),
    "SVC": make_pipeline(StandardScaler(), SVC()).fit(X_train, y_train),
}
accuracy = {name: model.score(X_test, y_test) for name, model in models.items()}
truth = log_odds(X_test["dose"], X_test["temperature"])
accuracy["truth"] = np.mean((truth > 0) == (y_test == "grows"))
for name, value in accuracy.items():
    print(f"{' '.join(name.split()):22} {value:.3f}")
print("kept pair:", clf.pairs_)

# %%
# The surface
# -----------
# What dose and temperature together contribute to the log-odds, and the truth in the same colours. Dots are training
# rows. The signs of the four corners are found; the surface is flatter than the truth, since it is penalised.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained", width_ratios=[1.2, 1, 1])
display = SurfaceDisplay.from_estimator(clf, "dose", "temperature", X=X_train, ax=axes[0])
display.maps_[0].set_clim(-6, 6)
grid = np.meshgrid(np.linspace(0, 10, 80), np.linspace(10, 30, 80))
axes[1].pcolormesh(*grid, log_odds(*grid), cmap="RdBu", vmin=-6, vmax=6, shading="auto")
axes[1].contour(*grid, log_odds(*grid), levels=[0.0], colors="black", linewidths=1.0)
for ax, title in zip(axes, ("found", "true")):
    ax.set(xlabel="dose (mg)", ylabel="temperature (°C)", title=title)
bars = axes[2].barh(list(accuracy), list(accuracy.values()), color=["#0072B2", *["0.6"] * 4])
axes[2].bar_label(bars, fmt="%.2f", padding=2)
axes[2].axvline(0.5, color="black", linewidth=0.8)
axes[2].set(xlim=(0.4, 1.0), xlabel="accuracy", title="800 test rows")
axes[2].invert_yaxis()
plt.show()

# %%
# A surface is free of what either feature does alone, and here the curves of both are nearly zero, as they should be.

parts = clf.explain(X_test)
for name, spread in zip(parts.part_names, parts.by_part[:, 0].std(axis=0)):
    print(f"{name:20} standard deviation over test rows {spread:.2f}")
