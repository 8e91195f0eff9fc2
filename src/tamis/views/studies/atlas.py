"""Maps of rows and prototypes in the plane, by their distances in the feature space of a learned kernel.

Rows x have norm one there and prototypes u are mixtures of rows, so that squared distances are

    row, row              2 - 2 K(x, z)
    row, prototype        1 + u'K u - 2 u'K(samples, x)
    prototype, prototype  u'K u + v'K v - 2 u'K v
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.manifold import TSNE
from sklearn.utils import check_random_state

from tamis.base.prototypes import PrototypeClassifier
from tamis.parallel import one_thread
from tamis.table.checks import check_choice

METHODS = ("tsne", "mds")
MOST_ROWS = 10_000  # of a map: more points than that cover each other
PERPLEXITY = 30.0  # of many points; fewer ones have a third of their number
SPREAD = 1e-4  # standard deviation of the first coordinates of t-SNE
NOISE = 0.05  # of these, as a share


def embed(
    clf: PrototypeClassifier, X: Any, *, method: str = "tsne", random_state: Any = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Places in the plane of rows and of the prototypes of a fitted classifier.

    Parameters
    ----------
    clf : fitted classifier by prototypes
    X : table, or series where the classifier was fitted to series
    method : {"tsne", "mds"}
        "tsne" keeps neighbours together, while distances between groups mean little; it starts from the other one.
        "mds", classical scaling, keeps distances as well as a linear projection of the feature space can.
    random_state : int, RandomState or None
        For small changes of the start of "tsne"; "mds" has nothing random.

    Returns
    -------
    rows : (n, 2)
    prototypes : (c, 2)
    """
    check_choice("method", method, METHODS)
    squared = squared_distances(clf, X)
    places = classical_map(squared)
    if method == "tsne":
        places = _neighbour_map(squared, places, random_state)
    n = len(squared) - len(clf.prototype_labels_)
    return places[:n], places[n:]


def squared_distances(clf: PrototypeClassifier, X: Any) -> np.ndarray:
    """Squared distances (n + c, n + c) between rows and prototypes, the rows first."""
    across, gram = clf.prototype_distances(X), clf.model_.expansion.gram
    if len(across) > MOST_ROWS:
        raise ValueError(f"X has {len(across)} rows, too many for a map: give a sample of at most {MOST_ROWS}")
    norms = np.diag(gram)
    squared = np.block([[2.0 - 2.0 * clf.kernel_matrix(X), across], [across.T, norms[:, None] + norms - 2.0 * gram]])
    squared = np.maximum(0.5 * (squared + squared.T), 0.0)
    np.fill_diagonal(squared, 0.0)
    return squared


def classical_map(squared: np.ndarray) -> np.ndarray:
    """Places (n, 2) whose distances are as near the given squared ones (n, n) as a projection can bring them.

    The two leading eigenvectors of the centred matrix ``-squared / 2``, each with its largest entry positive.
    """
    n = len(squared)
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + means.mean())
    values, vectors = np.linalg.eigh(inner)
    leading = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    leading *= np.where(leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])] < 0, -1.0, 1.0)
    places = np.zeros((n, 2))
    places[:, : leading.shape[1]] = leading
    return places


def assigned(clf: PrototypeClassifier, X: Any) -> np.ndarray:
    """Shares (rows, c) of the prototypes in each row: its code, scaled to add up to one (nothing where it is empty).

    Where a classifier has no codes, the nearest prototype has the whole row.
    """
    if not hasattr(clf, "encode"):
        distances = clf.prototype_distances(X)
        return (np.argmin(distances, axis=1)[:, None] == np.arange(distances.shape[1])).astype(float)
    codes = clf.encode(X).toarray()
    total = codes.sum(axis=1, keepdims=True)
    return codes / np.where(total > 0, total, 1.0)


def _neighbour_map(squared: np.ndarray, start: np.ndarray, random_state: Any) -> np.ndarray:
    """t-SNE from a given start."""
    n = len(squared)
    scale = start[:, 0].std()
    noise = check_random_state(random_state).normal(size=start.shape)
    begun = SPREAD * (start / (scale if scale > 0 else 1.0) + NOISE * noise)
    perplexity = min(PERPLEXITY, max(1.0, (n - 1) / 3.0))
    tsne = TSNE(perplexity=perplexity, metric="precomputed", init=begun, learning_rate="auto", random_state=0)
    with one_thread():  # the same sums, and so the same map, on any computer
        return tsne.fit_transform(np.sqrt(squared)).astype(float)
