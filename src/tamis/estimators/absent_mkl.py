"""AbsentMKLClassifier: classify with the channels that a sample has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tamis.codec import stored
from tamis.data.checks import check_choice, check_number
from tamis.errors import warn
from tamis.kernels.landmarks import LandmarkStack
from tamis.kernels.stack import KernelStack
from tamis.methods import absent_mkl as method
from tamis.methods.absent_conic import solve_conic_over
from tamis.models.model import PreparedRows
from tamis.optim.driver import Iterate, Solution, Status, run
from tamis.optim.polytope import Polytope
from tamis.shells.channelled import ChannelClassifier, ChannelTask
from tamis.shells.landmarked import LandmarkClassifier
from tamis.shells.parameters import parameters
from tamis.shells.stacked import Answer, Task

# [Liu2015], as in docs/references.bib
LIU2015 = (
    "Liu, Xinwang; Wang, Lei; Yin, Jianping; Dou, Yong; Zhang, Jian (2015). Absent Multiple Kernel Learning. "
    "Proceedings of the AAAI Conference on Artificial Intelligence."
)

CONIC = ("direct", "literal")  # programs that only a conic solver takes
SOLVERS = ("alternating", "conic")
SHARE = 0.5  # what pattern_weight="share" stands for
CERTAIN = 1e-5  # gap of a conic program that counts as none
QUICK = 1e-2  # gap that is enough on calibration folds


@dataclass(frozen=True)
class Facts:
    """Relative duality gap of one problem, and the simpler program that it comes down to, if any."""

    gap: float
    same: str | None


@stored
@parameters
class AbsentMKLClassifier(ChannelClassifier, LandmarkClassifier):
    """Multiple kernel learning for samples that lack channels, without filling anything in [Liu2015].

    Every sample is scored with the channels it has; an absent channel contributes nothing. The machine minimises the
    norms of the channels' normal vectors as far as they meet in one sample: ``min over a of J(a)``, J the optimal value
    of the support vector machine with the kernel ``sum_p a_p K_p``, where the weights a of the channels that any one
    training sample has add up to one at most. The duality gap says how far the result is from the optimum.

    Parameters
    ----------
    program : {"amkl", "zero_filling", "mean_margin", "sum", "direct", "literal"}
        Which weights are allowed: those of any one sample's channels add up to at most one ("amkl"), those of all
        channels do ("zero_filling", ordinary multiple kernel learning), the mean over samples does ("mean_margin"),
        each is one ("sum", a machine on the plain sum of the kernels). "direct" is Eq. 5 of the paper and "literal" its
        Eq. 12 as printed; both are for comparison and need ``pip install 'tamis[solvers]'``.
    pattern_weight : None, "share" or float
        How the samples count in "amkl". None: the one whose channels weigh most decides. A number q in (0, 1]: the
        mean over the share q of the samples whose channels weigh most; 1 is "mean_margin". "share" is 0.5.
    min_share : float
        In "amkl", patterns of present channels that a smaller share of the samples has are ignored.
    solver : {"alternating", "conic"} or None
        "alternating" fits machines and weights in turn; "conic" solves one large program, for a few hundred rows, and
        needs ``pip install 'tamis[solvers]'``. None is "alternating" wherever the program allows it.
    max_iter : int
        Most rounds.

    Attributes
    ----------
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    patterns_ : (patterns, n_kernels) boolean, the distinct sets of channels that training samples have and that are
        contained in no other
    present_share_ : (n_kernels,) share of the training samples that have each channel

    Notes
    -----
    One training sample with all channels makes "amkl" the same as "zero_filling", and samples with one channel each
    make it the same as "sum": a warning says so. `AbsentMKLClassifierCV` chooses `pattern_weight` among other things.

    What a program allows is counted in units of a kernel's mean diagonal over the samples that have it, so that the
    sizes of kernels do not matter; `kernel_weights_` are those of the kernels as given. A row without any channel is
    scored by the intercept alone; `explain` says which channels a row has, and flags such rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from tamis import AbsentMKLClassifier, per_group
    >>> X, y = load_wine(return_X_y=True)
    >>> X[::2, :6] = np.nan  # every other sample lacks one half of the measurements
    >>> X[1::2, 6:] = np.nan
    >>> groups = per_group({"first": range(6), "second": range(6, 13)})
    >>> clf = AbsentMKLClassifier(C=10.0, kernels=groups, program="mean_margin", calibration=None).fit(X, y)
    >>> clf.patterns_.tolist(), bool(clf.score(X, y) > 0.95)
    ([[False, True], [True, False]], True)
    >>> [(share.channel, share.present) for share in clf.explain(X[:1]).channels_of(0)]
    [('second', True), ('first', False)]
    """

    citation = LIU2015
    _squares = 10.0

    C: float = 1.0
    _: KW_ONLY
    program: str = "amkl"
    pattern_weight: Any = None
    min_share: float = 0.0
    solver: str | None = None
    max_iter: int = 200

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("program", self.program, (*method.PROGRAMS, *CONIC))
        check_choice("solver", self.solver, (*SOLVERS, None))
        check_number("min_share", self.min_share, 0.0, 1.0)
        check_pattern_weight("pattern_weight", self.pattern_weight)
        if self.program != "amkl" and (self.pattern_weight is not None or self.min_share > 0):
            raise ValueError(
                f"program={self.program!r} does not look at patterns: leave out pattern_weight and min_share, or use "
                "program='amkl'"
            )
        if self.solver == "alternating" and self.program in CONIC:
            raise ValueError(f"program={self.program!r} needs solver='conic' (or None)")
        if self.landmarks is not None and (self.solver == "conic" or self.program in CONIC):
            raise ValueError(
                f"landmarks={self.landmarks!r}: a conic program holds all kernels between all rows; use "
                "solver='alternating' with another program than 'direct' and 'literal', or leave landmarks out"
            )

    # ------------------------------------------------------------------ one problem

    def _solve(self, task: Task) -> Answer:
        return self._answer(task, None)

    def _answer(self, task: Task, start: Answer | None) -> Answer:
        """The answer to a task, found from that to a similar one."""
        assert isinstance(task, ChannelTask)
        scale = sizes(task)
        seen = np.flatnonzero(scale > 0)
        if not len(seen):
            return nothing(task)
        stack = task.stack if len(seen) == len(scale) else task.stack.take(kernels=seen)
        polytope = self._polytope(task, scale, seen)
        if self.solver == "conic" or self.program in CONIC:
            solution = self._solve_conic(stack, task, polytope, scale[seen])
        else:
            solution = method.solve(
                method.Problem(stack, task.y, task.cost, polytope),
                start=None if start is None else method.State(start.weights[seen], start.dual_coef, start.intercept),
                tol=max(self.tol, QUICK) if task.quick else self.tol,
                max_iter=self.max_iter,
                callback=self._progress(),
            )
        state = solution.state
        weights = np.zeros(len(scale))
        weights[seen] = state.weights
        solution = replace(solution, history=solution.history.among(seen, len(scale)))
        facts = Facts(float(solution.history.violation[-1]), self._same(task.present[:, seen], task.cost))
        return Answer(state.dual_coef, weights, state.intercept, solution, facts)

    def _same(self, present: np.ndarray, weight: np.ndarray) -> str | None:
        """The simpler program that "amkl" comes down to for these patterns, if there is one."""
        if self.program != "amkl" or self.pattern_weight is not None or present.all():
            return None
        ones = np.ones(present.shape[1])
        patterns = method.polytope_of("amkl", present, weight, ones, min_share=self.min_share).rows
        if len(patterns) == 1:
            return "zero_filling"
        return "sum" if np.all(np.count_nonzero(patterns, axis=1) == 1) else None

    def _shape(self, task: Task) -> tuple[bytes, bytes]:
        """What says whether two settings of programs without a cone allow the same weights."""
        assert isinstance(task, ChannelTask)
        scale = sizes(task)
        seen = np.flatnonzero(scale > 0)
        if not len(seen):
            return b"", b""
        polytope = self._polytope(task, scale, seen)
        return polytope.rows.tobytes(), b"" if polytope.caps is None else polytope.caps.tobytes()

    def _polytope(self, task: ChannelTask, scale: np.ndarray, seen: np.ndarray) -> Polytope:
        """The weights of the channels `seen` that are allowed."""
        program = "amkl" if self.program in CONIC else self.program
        tail = SHARE if self.pattern_weight == "share" else self.pattern_weight
        return method.polytope_of(
            program, task.present[:, seen], task.cost, scale[seen], tail=tail, min_share=self.min_share
        )

    def _solve_conic(
        self, stack: KernelStack, task: ChannelTask, polytope: Polytope, scale: np.ndarray
    ) -> Solution[method.State]:
        """The same by a conic program, on kernels of size one."""
        grams = [stack.one(k) / scale[k] for k in range(len(scale))]
        shape = replace(polytope, rows=polytope.rows / scale)
        program = self.program if self.program in CONIC else "weights"
        try:
            found = solve_conic_over(grams, task.y, task.cost, shape, program)
        except ArithmeticError as error:
            raise ValueError(f"C={self.C!r}: {error}, or use solver='alternating'") from error
        state = method.State(found.weights / scale, found.dual_coef, found.intercept)
        status = Status.CONVERGED if found.gap <= max(self.tol, CERTAIN) else Status.STALLED
        return run(iter([Iterate(state, found.objective, found.gap, status)]), tol=self.tol, max_iter=1)

    def _table(self, prepared: PreparedRows, members: np.ndarray, answer: Answer) -> tuple[np.ndarray, np.ndarray]:
        stack = prepared.stack
        if not isinstance(stack, LandmarkStack):
            return super()._table(prepared, members, answer)
        dual_coef = np.zeros(stack.shape[1])
        dual_coef[members] = answer.dual_coef
        m = len(prepared.pool)
        return np.arange(m), stack.folded(answer.weights, dual_coef, m)

    def _shares(self, prepared: PreparedRows, answers: Sequence[Answer]) -> np.ndarray:
        sizes = [np.abs(a.dual_coef).sum() * a.weights for a in answers]
        return np.abs(self._votes(prepared.encoded.rows)) @ np.array(sizes)

    # ------------------------------------------------------------------ what was learned

    def _facts(self, facts: list[Any], prepared: PreparedRows) -> None:
        present = prepared.bank.presence(prepared.encoded.sample.Z)
        self.patterns_ = method.maximal_patterns(present)
        self.present_share_ = np.average(present, axis=0, weights=prepared.encoded.rows.mass)
        self.duality_gap_ = max(fact.gap for fact in facts)
        warn_same([fact.same for fact in facts])

    def chosen(self) -> dict[str, Any]:
        found = {"program": self.program, **super().chosen()}
        return {**found, "duality gap": self.duality_gap_} if hasattr(self, "duality_gap_") else found


def sizes(task: ChannelTask) -> np.ndarray:
    """Mean diagonal (L,) of each kernel over the rows that have it; zero if there are none."""
    weight = task.cost @ task.present
    total = (task.stack.diagonal() * task.present.T) @ task.cost
    return np.divide(total, weight, out=np.zeros(len(weight)), where=weight > 0)


def warn_same(same: list[str | None]) -> None:
    """Say that the patterns make the program a simpler one."""
    reasons = {
        "zero_filling": "some training sample has every channel that any other has, which makes the program the same "
        "as 'zero_filling', ordinary multiple kernel learning; pattern_weight='share' or min_share (or a search over "
        "them) lets the other samples count",
        "sum": "no training sample whose pattern counts has two channels, which makes the program the same as 'sum', "
        "the unweighted sum of the kernels",
    }
    for program, reason in reasons.items():
        count = same.count(program)
        where = "" if count == len(same) else f" in {count} of {len(same)} problems of two classes"
        if count:
            warn(f"{reason[0].upper()}{reason[1:]}{where}")


def check_pattern_weight(name: str, value: Any) -> None:
    """Refuse what is neither None, "share" nor a number in (0, 1]."""
    if value is None or (isinstance(value, str) and value == "share"):
        return
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < float(value) <= 1.0:
        raise ValueError(f"{name}={value!r} must be None, 'share' or a number above 0 and at most 1")


def nothing(task: ChannelTask) -> Answer:
    """Where no row has any channel the class of larger cost gets all rows."""
    sign = 1.0 if task.y @ task.cost >= 0 else -1.0
    n, L = task.present.shape
    lost = 2.0 * float(task.cost[task.y != sign].sum())
    state = method.State(np.zeros(L), np.zeros(n), sign)
    solution = run(iter([Iterate(state, lost, 0.0, Status.COLLAPSED)]), tol=1.0, max_iter=1)
    return Answer(state.dual_coef, state.weights, sign, solution, Facts(0.0, None))
