"""IMKPLClassifier: prototypes that people can look at, in a learned combination of kernels."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from tamis.arrays import to_numpy
from tamis.codec import stored
from tamis.data.checks import check_choice, check_integer, check_number
from tamis.errors import warn
from tamis.kernels.unit import LabelledRows
from tamis.methods import imkpl
from tamis.methods.imkpl_weights import RULES, weight_rule
from tamis.methods.prototypes import CodedExpansion
from tamis.shells.coded import CodingClassifier
from tamis.shells.direct import DirectClassifier
from tamis.shells.parameters import parameters
from tamis.shells.prototypes import Found, Ready, outputs_of

# [Hosseini2019], as in docs/references.bib
HOSSEINI2019 = (
    "Hosseini, Babak; Hammer, Barbara (2019). Interpretable Multiple-Kernel Prototype Learning for Discriminative "
    "Representation and Feature Selection. CIKM."
)
STARTS = ("greedy", "random")
LARGEST = 1e6  # price
SPARSE = ("align", "graph")  # rules that know kappa and max_kernels


@stored
@parameters
class IMKPLClassifier(CodingClassifier, DirectClassifier):
    """Prototypes of few training samples of one class, in a learned sparse combination of kernels [Hosseini2019].

    Every sample is rebuilt as a sparse non-negative mixture of prototypes, and every prototype is a sparse
    non-negative mixture of samples. A penalty keeps prototypes to one class and to tight groups; the kernels are
    weighed so that samples resemble their neighbours of the same class and not the others. A new row belongs to the
    class whose samples have the largest share in its code.

    X may also be multivariate time series: an array (sample, channel, step) with NaN after the end of a series, or a
    list of arrays (channel, step) of different lengths. Each channel then has a global alignment kernel
    (`tamis.alignment`, which can also cache them); a channel of NaN alone is absent.

    Parameters
    ----------
    prototype_size : int
        The paper's T_0: most samples in a prototype and most prototypes in a code.
    lam : float
        Price of rebuilding a sample from other classes or from afar.
    mu : float
        Weight of the separation of neighbours of different classes in the choice of kernels.
    tau : float
        Price of prototypes of many or distant samples: larger values give single cases.
    code_size : int or None
        Most prototypes in the code of a new row; None is `prototype_size`. With 1 a row goes to one prototype.
    kappa : float
        In [0, 1), for "align" and "graph": larger values keep fewer kernels. Near 0 kernels that hardly vary may get
        much of the weight.

    Notes
    -----
    Constant features get no weight. The alternating minimisation finds a stationary point, not a global minimum, and
    the weight step may raise the objective. Samples are compared with all others, in matrices between all rows: of tens
    of thousands give a sample.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tamis import IMKPLClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> clf = IMKPLClassifier(calibration=None).fit(X, y)
    >>> len(clf.prototypes_), bool(clf.score(X, y) > 0.95)
    (15, True)
    >>> explanation = clf.explain(X.head(1))
    >>> [share.label for share in explanation.prototypes_of(0)][:1]
    [0]
    """

    citation = HOSSEINI2019
    _squares = 11.5
    violation_means = "relative change of objective"

    prototype_size: int = 5
    lam: float = 0.2
    mu: float = 0.2
    tau: float = 0.2
    _: KW_ONLY
    code_size: int | None = None
    kappa: float = 0.1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("lam", "mu", "tau", "kappa"):
            check_number(name, getattr(self, name), 0.0, LARGEST)
        if self.kappa >= 1:
            raise ValueError(f"kappa={self.kappa!r} must be below 1, where no kernel would be left")
        check_integer("prototype_size", self.prototype_size, 1)
        for name in ("n_prototypes", "n_neighbors", "code_size", "max_kernels"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1)
        check_choice("weight_step", self.weight_step, RULES)
        check_choice("start", self.start, STARTS)
        if self.max_kernels is not None and self.weight_step not in SPARSE:
            raise ValueError(
                f"max_kernels={self.max_kernels!r} has no meaning for weight_step={self.weight_step!r}: use 'align' or "
                "'graph', or leave it out"
            )
        if self.spread is not None:
            check_number("spread", self.spread, 1.0 if self.weight_step == "ball" else 1e-6)

    def _problem(self, rows: LabelledRows) -> imkpl.Problem:
        rule = weight_rule(self.weight_step, kappa=self.kappa, spread=self.spread, max_kernels=self.max_kernels)
        neighbors = self.n_neighbors or self.prototype_size
        return imkpl.Problem(rows, self.prototype_size, self.lam, self.mu, self.tau, neighbors, rule)

    def _tell(self, ready: Ready) -> None:
        super()._tell(ready)
        asked = self.n_prototypes or self.prototype_size
        fewest = int(np.bincount(ready.rows.codes).min())
        if fewest < asked:
            warn(
                f"the smallest class has {fewest} distinct samples, fewer than the {asked} prototypes asked for: there "
                "will be fewer; set n_prototypes, or a smaller prototype_size",
            )

    def _find(self, ready: Ready) -> Found:
        problem = self._problem(ready.rows)
        begun = imkpl.start(problem, self.n_prototypes or self.prototype_size, self.start, self._seed)
        solution = imkpl.solve(problem, begun, tol=self.tol, max_iter=self.max_iter, callback=self._progress())
        state = solution.state
        facts = {"code_violation_": imkpl.code_violation(problem, state)}
        return Found(state.U, state.weights, to_numpy(state.K), solution, state.G, facts=facts)

    def _expansion(
        self, parts: dict[str, Any], masses: np.ndarray, factors: np.ndarray, labels: np.ndarray
    ) -> CodedExpansion:
        voices = outputs_of(np.eye(len(factors))[:, labels] * factors[:, None])
        size = self.code_size or self.prototype_size
        votes, intercept = voices @ parts["prototypes"], np.zeros(len(voices))
        return CodedExpansion(**parts, votes=votes, voices=voices, intercept=intercept, code_size=size)

    def chosen(self) -> dict[str, Any]:
        own = {
            "prototype size T0": self.prototype_size,
            "lam, mu, tau": f"{self.lam:g}, {self.mu:g}, {self.tau:g}",
            "weight step": self.weight_step + (f" (kappa {self.kappa:g})" if self.weight_step in SPARSE else ""),
        }
        return own | super().chosen()
