"""AbsentMKLClassifier: classify with the channels that a sample has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from tamis.base.kernel_model import KernelModel
from tamis.base.kernel_space import PreparedRows
from tamis.base.stack_classifier import Answer, StackClassifier, Task
from tamis.codec import stored
from tamis.errors import check_choice, check_number, warn
from tamis.explain.kernel_explanation import ChannelExplanation
from tamis.kernels.recipes import per_feature
from tamis.kernels.stacks.base import KernelStack
from tamis.methods.absent import solver as method
from tamis.methods.absent.channels import MULTICLASS, ChannelProblems, channel_ranges, explain_channels, mirrored
from tamis.methods.absent.conic import solve_conic_over
from tamis.optim.driver import Iterate, Solution, Status, run
from tamis.optim.polytope import Polytope

LIU2015 = (
    "Liu, Xinwang; Wang, Lei; Yin, Jianping; Dou, Yong; Zhang, Jian (2015). Absent Multiple Kernel Learning. "
    "Proceedings of the AAAI Conference on Artificial Intelligence."
)

CONIC = ("direct", "literal")  # programs that only a conic solver takes
SOLVERS = ("alternating", "conic")
PATTERN_SHARE = 0.5  # what pattern_weight="share" stands for
CERTAIN_GAP = 1e-5  # gap of a conic program that counts as none
FOLD_GAP = 1e-2  # gap that is enough on calibration folds


@dataclass(frozen=True)
class Details:
    """Relative duality gap of one problem, and the simpler program that it comes down to, if any."""

    gap: float
    same: str | None


@stored
class AbsentMKLClassifier(StackClassifier):
    """Multiple kernel learning for samples that lack channels, without filling anything in [Liu2015].

    Every sample is scored with the channels it has; an absent channel contributes nothing. The machine minimises the
    norms of the channels' normal vectors as far as they meet in one sample: ``min over a of J(a)``, J the optimal value
    of the support vector machine with the kernel ``sum_p a_p K_p``, where the weights a of the channels that any one
    training sample has add up to one at most. The duality gap says how far the result is from the optimum.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a violated margin; sample and class weights multiply it.
    program : {"amkl", "zero_filling", "mean_margin", "sum", "direct", "literal"}, default="amkl"
        Which weights are allowed: those of any one sample's channels add up to at most one ("amkl"), those of all
        channels do ("zero_filling", ordinary multiple kernel learning), the mean over samples does ("mean_margin"),
        each is one ("sum", a machine on the plain sum of the kernels). "direct" is Eq. 5 of the paper and "literal" its
        Eq. 12 as printed; both are for comparison and need ``pip install 'tamis[solvers]'``.
    pattern_weight : None, "share" or float, default=None
        How the samples count in "amkl". None: the one whose channels weigh most decides. A number q in (0, 1]: the
        mean over the share q of the samples whose channels weigh most; 1 is "mean_margin". "share" is 0.5.
    min_share : float, default=0.0
        In "amkl", patterns of present channels that a smaller share of the samples has are ignored.
    solver : {"alternating", "conic"} or None, default=None
        "alternating" fits machines and weights in turn; "conic" solves one large program, for a few hundred rows, and
        needs ``pip install 'tamis[solvers]'``. None is "alternating" wherever the program allows it.
    max_iter : int, default=200
        Most rounds.
    multiclass : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        In "one_vs_one" the score of a class is the sum of its scores against the others.
    landmarks : int or None, default=None
        Number of training rows, drawn from every class, through which kernels are approximated (Nystrom). Time and
        memory are then linear in the rows, the model is a sum over landmarks, and `landmark_error_` reports what the
        kernels lost. None, or at least as many as there are distinct rows: exact kernels.
    device : str or None, default=None
        "cuda" or "cuda:1" holds kernel matrices on that device and works on them there, in float64; "cpu" does so by
        torch (both need ``pip install 'tamis[gpu]'``); None is numpy. The model is the same up to rounding.
    kernels : None, recipe, KernelBank or list of (name, kernel, columns), default=None
        The channels, positive semi-definite. None is `tamis.per_feature()`, a Gaussian on each feature; see also
        `tamis.per_group()`, `tamis.channels()` and `tamis.precomputed()`, where a row of NaN is absent.
    tol : float, default=0.001
        Relative duality gap at which the fit stops.
    calibration : int or None, default=3
        Number of folds whose out-of-fold decisions fit the probabilities and move the intercept to probability one
        half. None: no `predict_proba`, the method's own intercept, and a faster fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" gives all classes the same total weight.
    scaling : {"standard", "rank", None}, default="standard"
        "standard": numbers of mean zero and variance one; "rank": ranks, for long tails; None: numbers as they are.
    missing : {"absent", "median", None}, default="absent"
        "absent": a row with any missing cell in a channel lacks that channel; "median": filled with the training median
        (the most frequent category), so that nothing is absent; None: refused.
    categorical_features : "auto" or list of names, positions or booleans, default="auto"
        "auto": columns of text, booleans or a categorical type are categories. Columns of numeric codes must be named.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of everything else that is drawn at random. None is the same as 0.
    n_jobs : int or None, default=None
        Number of processes for the folds; None is one.
    memory_limit : int, float, str or None, default=None
        Largest memory of a fit in bytes, as a number or as text such as "2GB"; None: what is available. A fit that
        would need more (see `memory_estimate`) is refused before it starts.
    verbose : int, default=0
        Whether to log every round of the fit; 0 is silent.

    Attributes
    ----------
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    patterns_ : (patterns, n_kernels) boolean, the distinct sets of channels that training samples have and that are
        contained in no other
    present_share_ : (n_kernels,) share of the training samples that have each channel
    channel_ranges_ : (outputs, kept kernels, 3) what each channel contributes to training samples that have it: the 5%,
        50% and 95% quantiles
    landmark_error_ : `LandmarkError` of the kept kernels where landmarks were used: the shares `mean` and `largest` of
        the variance k(x, x) of training rows that are lost, and the landmarks `rank` behind each kernel
    dual_coef_ : coefficients of the rows; of landmarks, their sums over kernels
    kernel_weights_ : weights of the kernels, adding up to one
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    classes_, instances_per_class_ : the class labels, sorted (of two the second is positive); instances of each output
    instances_, instance_labels_ : training rows with a coefficient, as positions and as index labels
    features_, kernels_, kernel_names_ : kept features, as positions in X; kept kernels and their names
    intercept_ : of each output
    instance_variation_, kernel_variation_, feature_variation_ : shares in the variation of the decision over training
        rows, in per cent; of features where every kernel stands on one
    pairs_ : pairs of features that have a `surface`, by name, those that matter most first
    history_ : objective, violation and seconds of every round; a list where several problems were solved
    n_iter_, objective_, status_ : most rounds of all problems; final objective, summed over them; how the fit ended
    n_features_in_, feature_names_in_ : columns of X, and their names where it has them

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
    _recipe = per_feature()
    _complete = True
    _squares = 10.0

    channel_ranges_: np.ndarray

    def __init__(
        self,
        C: float = 1.0,
        *,
        program: str = "amkl",
        pattern_weight: Any = None,
        min_share: float = 0.0,
        solver: str | None = None,
        max_iter: int = 200,
        multiclass: str = "one_vs_rest",
        landmarks: int | None = None,
        device: str | None = None,
        kernels: Any = None,
        tol: float = 0.001,
        calibration: int | None = 3,
        class_weight: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.program = program
        self.pattern_weight = pattern_weight
        self.min_share = min_share
        self.solver = solver
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.landmarks = landmarks
        self.device = device
        self.kernels = kernels
        self.tol = tol
        self.calibration = calibration
        self.class_weight = class_weight
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice("multiclass", self.multiclass, MULTICLASS)
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

    # ------------------------------------------------------------------ from classes to problems and back

    def _describe(
        self, model: KernelModel, prepared: PreparedRows, answers: Sequence[Answer]
    ) -> tuple[KernelModel, dict[str, Any]]:
        model, attributes = super()._describe(model, prepared, answers)
        return model, {**attributes, "channel_ranges_": channel_ranges(model, prepared.encoded.rows)}

    def _tasks(self, prepared: PreparedRows, rough: bool) -> list[Task]:
        return ChannelProblems(prepared, self.multiclass).tasks(self._costs(prepared.encoded.rows), rough)

    def _assemble(self, prepared: PreparedRows, answers: Sequence[Answer]) -> KernelModel:
        problems = ChannelProblems(prepared, self.multiclass)
        return problems.model(*problems.coefficients(answers), answers)

    def explain(self, X: Any) -> ChannelExplanation:
        """Split decisions into the contributions of samples and channels, with the channels that each row has."""
        return explain_channels(self, X, super().explain(X))

    def _turn_signs(self) -> None:
        super()._turn_signs()
        self.channel_ranges_ = mirrored(self.channel_ranges_)

    # ------------------------------------------------------------------ one problem

    def _solve(self, task: Task) -> Answer:
        return self._answer(task, None)

    def _answer(self, task: Task, start: Answer | None) -> Answer:
        """The answer to a task, found from that to a similar one."""
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
                tol=max(self.tol, FOLD_GAP) if task.rough else self.tol,
                max_iter=self.max_iter,
                callback=self._log_callback(),
            )
        state = solution.state
        weights = np.zeros(len(scale))
        weights[seen] = state.weights
        solution = replace(solution, history=solution.history.among(seen, len(scale)))
        details = Details(float(solution.history.violation[-1]), self._same(task.present[:, seen], task.cost))
        return Answer(state.dual_coef, weights, state.intercept, solution, details)

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
        """A key that is equal for settings of programs without a cone that allow the same weights."""
        scale = sizes(task)
        seen = np.flatnonzero(scale > 0)
        if not len(seen):
            return b"", b""
        polytope = self._polytope(task, scale, seen)
        return polytope.rows.tobytes(), b"" if polytope.caps is None else polytope.caps.tobytes()

    def _polytope(self, task: Task, scale: np.ndarray, seen: np.ndarray) -> Polytope:
        """The weights of the channels `seen` that are allowed."""
        program = "amkl" if self.program in CONIC else self.program
        tail = PATTERN_SHARE if self.pattern_weight == "share" else self.pattern_weight
        return method.polytope_of(
            program, task.present[:, seen], task.cost, scale[seen], tail=tail, min_share=self.min_share
        )

    def _solve_conic(
        self, stack: KernelStack, task: Task, polytope: Polytope, scale: np.ndarray
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
        status = Status.CONVERGED if found.gap <= max(self.tol, CERTAIN_GAP) else Status.STALLED
        return run(iter([Iterate(state, found.objective, found.gap, status)]), tol=self.tol, max_iter=1)

    def _shares(self, prepared: PreparedRows, answers: Sequence[Answer]) -> np.ndarray:
        sizes = [np.abs(a.dual_coef).sum() * a.weights for a in answers]
        return np.abs(ChannelProblems(prepared, self.multiclass).votes()) @ np.array(sizes)

    # ------------------------------------------------------------------ what was learned

    def _report(self, answers: Sequence[Answer], prepared: PreparedRows) -> dict[str, Any]:
        present = prepared.bank.presence(prepared.encoded.sample.Z)
        warn_same([answer.details.same for answer in answers])
        return {
            "patterns_": method.maximal_patterns(present),
            "present_share_": np.average(present, axis=0, weights=prepared.encoded.rows.mass),
            "duality_gap_": max(answer.details.gap for answer in answers),
        }

    def summary(self) -> dict[str, Any]:
        gap = {"duality gap": self.duality_gap_} if hasattr(self, "duality_gap_") else {}
        return {"program": self.program, **super().summary(), **gap}


def sizes(task: Task) -> np.ndarray:
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


def nothing(task: Task) -> Answer:
    """Where no row has any channel the class of larger cost gets all rows."""
    sign = 1.0 if task.y @ task.cost >= 0 else -1.0
    n, L = task.present.shape
    lost = 2.0 * float(task.cost[task.y != sign].sum())
    state = method.State(np.zeros(L), np.zeros(n), sign)
    solution = run(iter([Iterate(state, lost, 0.0, Status.COLLAPSED)]), tol=1.0, max_iter=1)
    return Answer(state.dual_coef, state.weights, sign, solution, Details(0.0, None))
