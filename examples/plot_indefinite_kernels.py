"""
Similarities that are no kernels
================================

This example shows what to do with a similarity that is not positive semi-definite, such as one made from edit
distances of strings. A support vector machine needs it repaired: its negative eigenvalues clipped, flipped or
shifted. ``L0MKLClassifier`` takes it as it is. The strings are made up: copies, with errors, of two words for each
class.
"""

import matplotlib.pyplot as plt
import numpy as np

from tamis import L0MKLClassifier, SimpleMKLClassifier, precomputed, repaired

rng = np.random.default_rng(0)
WORDS = rng.integers(4, size=(2, 2, 14))  # two words of 14 letters for each of two classes


def copied(word):
    """A word with letters changed, lost and put in, and with other letters at both ends."""
    out = list(rng.integers(4, size=rng.integers(8)))
    for letter in word:
        fate = rng.random()
        out += [rng.integers(4)] if fate < 0.2 else [] if fate < 0.35 else [letter]
        out += [rng.integers(4)] if fate > 0.85 else []
    return np.array([*out, *rng.integers(4, size=rng.integers(8))])


def edit_distances(strings):
    """Numbers of letters to change, put in or take out between all strings (n, n), row by row of the usual table."""
    longest = max(map(len, strings))
    padded = np.array([np.pad(s, (0, longest - len(s)), constant_values=-1) for s in strings])
    ends, place = np.array([len(s) for s in strings]), np.arange(longest + 1)
    out = np.empty((len(strings), len(strings)))
    for i, string in enumerate(strings):
        row = np.tile(place, (len(strings), 1))
        for k, letter in enumerate(string):
            kept = np.minimum(row[:, 1:] + 1, row[:, :-1] + (padded != letter))
            row = np.minimum.accumulate(np.column_stack([np.full(len(row), k + 1), kept]) - place, axis=1) + place
        out[i] = row[np.arange(len(row)), ends]
    return out


n = 240
y = np.arange(n) % 2
strings = [copied(WORDS[label, rng.integers(2)]) for label in y]
D = edit_distances(strings)

# %%
# From distances to similarities
# ------------------------------
# Squared distances, centred, are inner products if the distances come from points in a space. Edit distances do not:
# a part of the eigenvalues is negative.

centre = np.eye(n) - 1 / n
S = -0.5 * centre @ D**2 @ centre
S /= np.abs(S).max()
values = np.linalg.eigvalsh(S)
negative = -values[values < 0].sum() / np.abs(values).sum()
print(f"{np.count_nonzero(values < 0)} of {n} eigenvalues are negative, with {negative:.0%} of the sum of all moduli")

# %%
# ``precomputed`` makes a kernel of the matrix. The table X is then one column, the positions of the items in it, so
# that subsets and folds work as usual. A method that needs a positive semi-definite kernel raises an error:

items, recipe = np.arange(n)[:, None], precomputed(S[None])
try:
    SimpleMKLClassifier(kernels=recipe).fit(items, y)
except ValueError as error:
    print(error)

# %%
# Repaired, or as it is
# ---------------------
# Ten random splits, 120 strings each for training and for the test, with the nearest neighbour by edit distance as a
# baseline.

models = {
    "clipped, SVM": lambda: SimpleMKLClassifier(C=10, kernels=repaired(recipe, "clip"), calibration=None),
    "flipped, SVM": lambda: SimpleMKLClassifier(C=10, kernels=repaired(recipe, "flip"), calibration=None),
    "shifted, SVM": lambda: SimpleMKLClassifier(C=10, kernels=repaired(recipe, "shift"), calibration=None),
    "as it is, L0MKL": lambda: L0MKLClassifier(kernels=recipe, calibration=None),
}
accuracy = {name: [] for name in [*models, "nearest neighbour"]}
for seed in range(10):
    order = np.random.default_rng(seed).permutation(n)
    train, test = order[:120], order[120:]
    for name, make in models.items():
        accuracy[name].append(make().fit(items[train], y[train]).score(items[test], y[test]))
    nearest = train[np.argmin(D[np.ix_(test, train)], axis=1)]
    accuracy["nearest neighbour"].append(np.mean(y[nearest] == y[test]))
for name, found in accuracy.items():
    print(f"{name:20} {np.mean(found):.3f} (standard deviation over splits {np.std(found):.3f})")

# %%
# The figure
# ----------
# Left, the eigenvalues, and what the three repairs make of them. Right, the accuracy; points are splits. On these
# strings clipping, shifting and leaving it as it is are within the spread of the splits of each other. Flipping,
# which makes distant strings similar, is less accurate.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.axhline(0, color="0.6", linewidth=0.8)
left.plot(values[::-1], color="black", linewidth=2.5, label="as they are")
left.plot(np.sort(np.maximum(values, 0))[::-1], "--", color="#D55E00", label="clipped")
left.plot(np.sort(np.abs(values))[::-1], "-.", color="#009E73", label="flipped")
left.plot((values - values.min())[::-1], ":", color="#0072B2", label="shifted")
left.set(xlabel="rank", ylabel="eigenvalue")
left.set_yscale("symlog", linthresh=0.1)
left.legend(frameon=False)
for k, found in enumerate(accuracy.values()):
    right.scatter(found, np.full(10, k), s=14, color="0.6")
    right.scatter(np.mean(found), k, marker="D", s=50, color="#0072B2")
right.set_yticks(range(len(accuracy)), accuracy)
right.set(xlabel="accuracy on test strings (diamond: mean of ten splits)")
right.invert_yaxis()
plt.show()
