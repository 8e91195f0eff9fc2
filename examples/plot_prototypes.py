"""
Prototypes that one can look at
===============================

This example shows how to describe classes by real samples. ``IMKPLClassifier`` finds small groups of training
samples of one class, the prototypes, and rebuilds every new sample from a few of them. On pictures of digits these
can be shown, and so can the reason for an answer.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from tamis import IMKPLClassifier, bandwidths

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=600, stratify=y, random_state=0)

# %%
# Thirty prototypes for ten digits
# --------------------------------
# The kernel is a Gaussian on all 64 grey values, which are left unscaled. Each prototype is a mixture of at most
# three pictures. Digits that vary more get more of the thirty.

options = {"kernels": bandwidths([2.0]), "scaling": None, "calibration": None, "random_state": 0}
clf = IMKPLClassifier(prototype_size=3, n_prototypes=3, **options).fit(X_train, y_train)
print(len(clf.prototypes_), "prototypes:", {int(k): v for k, v in clf.prototypes_per_class_.items()})

# %%
# What they cost
# --------------
# Accuracy on 1197 test pictures over the mean number of prototypes for each digit. A support vector machine and the
# nearest of all 600 training pictures are better: that is the price of a model of a few pictures.

numbers = (1, 2, 3, 4, 6)
accuracy = []
for number in numbers:
    small = IMKPLClassifier(prototype_size=3, n_prototypes=number, **options).fit(X_train, y_train)
    accuracy.append(small.score(X_test, y_test))
    samples = {int(i) for prototype in small.prototypes_ for i in prototype.instances}
    print(f"{number} prototypes for each digit, {len(samples):3d} pictures in all: accuracy {accuracy[-1]:.3f}")
peers = {"SVC": SVC(), "nearest of 600": KNeighborsClassifier(1)}
peers = {name: peer.fit(X_train, y_train).score(X_test, y_test) for name, peer in peers.items()}
print({name: round(value, 3) for name, value in peers.items()})

figure, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
ax.plot(numbers, accuracy, "o-", color="#0072B2", label="IMKPL")
for (name, value), dash, colour in zip(peers.items(), ("--", ":"), ("#D55E00", "#009E73")):
    ax.axhline(value, color=colour, linestyle=dash, label=name)
ax.set(xlabel="prototypes for each digit (mean)", ylabel="accuracy on test pictures", xticks=numbers)
ax.legend(frameon=False)
plt.show()

# %%
# The pictures
# ------------
# One prototype of each digit, the one that represents most training pictures, with the weights of its samples. Every
# picture is a real one.

figure, axes = plt.subplots(3, 10, figsize=(9.5, 3.6), layout="constrained")
for digit, column in enumerate(axes.T):
    own = [prototype for prototype in clf.prototypes_ if prototype.label == digit]
    most = max(own, key=lambda prototype: len(prototype.represents))
    for ax in column:
        ax.axis("off")
    for ax, row, weight in zip(column, most.instances, most.weights):
        ax.imshow(X_train[row].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{weight:.2f}", fontsize="small")
figure.suptitle("one prototype of each digit: its samples and their weights", fontsize="medium")
plt.show()

# %%
# Why this answer?
# ----------------
# Two test pictures, one that is predicted correctly and one that is not, and the three prototypes with the largest
# contributions, each by its sample of largest weight. The code is the amount of the prototype in the picture.

predicted = clf.predict(X_test)
rows = [int(np.flatnonzero(predicted == y_test)[0]), int(np.flatnonzero(predicted != y_test)[0])]
explanation = clf.explain(X_test[rows])
figure, axes = plt.subplots(2, 4, figsize=(8, 4.4), layout="constrained")
for k, (row, line) in enumerate(zip(rows, axes)):
    line[0].imshow(X_test[row].reshape(8, 8), cmap="gray_r")
    line[0].set_title(f"a {y_test[row]}, predicted: {predicted[row]}", fontsize="medium")
    for ax, share in zip(line[1:], explanation.prototypes_of(k)):
        ax.imshow(X_train[share.samples[0][0]].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"prototype of {share.label}\nshare in the code {share.code:.2f}", fontsize="small")
    for ax in line:
        ax.axis("off")
plt.show()
