"""AbsentMKLClassifierCV: cost and treatment of patterns of absent multiple kernel learning by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tamis.base.classifier import ReadableClassifier
from tamis.base.kernel_space import PreparedRows
from tamis.base.memory import MemoryEstimate, Size
from tamis.base.model import FitContext, Fitted
from tamis.base.search import (
    HeldOut,
    check_search,
    choice_in_words,
    chosen_point,
    kernel_choices,
    search_cells,
    single_classifier,
)
from tamis.base.stack_classifier import Answer, Task, extended, landmarks_in_words, weights_in_words
from tamis.codec import stored
from tamis.errors import check_choice, check_values
from tamis.explain.kernel_explanation import ChannelExplanation
from tamis.kernels.recipes import per_feature
from tamis.methods.absent.channels import explain_channels, mirrored
from tamis.methods.absent.estimator import LIU2015, AbsentMKLClassifier, check_pattern_weight
from tamis.methods.absent.solver import PROGRAMS
from tamis.table.rows import Rows


@dataclass(frozen=True)
class Cell:
    """One point of the grid; kernels by name."""

    kernels: str
    program: str
    pattern_weight: Any
    min_share: float
    C: float


@stored
class AbsentMKLClassifierCV(ReadableClassifier):
    """Absent multiple kernel learning with its cost and its treatment of patterns chosen by cross-validation [Liu2015].

    The kernels of a fold serve all settings, and each goes from the smallest cost up. Scores come from held-out rows
    of the training data only; the score of the winner is the best of many and therefore optimistic: do not report it
    as performance.

    Parameters
    ----------
    Cs : sequence of float, default=(0.1, 1.0, 10.0, 100.0)
    programs : sequence of str, default=("amkl", "sum")
        Among "amkl", "zero_filling", "mean_margin" and "sum".
    pattern_weights : sequence of None, "share" or float, default=(None, 0.5, 1.0)
        For the program "amkl".
    min_shares : sequence of float, default=(0.0, 0.05)
        For the program "amkl" with pattern weight None.
    tol : float, default=0.001
        Relative duality gap at which a fit stops.
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
    cv : int, splitter or sequence of (train, test) positions, default=5
        An integer (None is 5) requests stratified folds that follow the values of rows; copies of a row are dealt over
        them. With `groups` in `fit`, rows of one group stay together. Splitters and positions refer to the rows of X
        as given.
    scoring : {"log_loss", "accuracy", "roc_auc", "squared_error"}, default="log_loss"
        Log-loss and accuracy are taken after calibration of all held-out decisions together.
    rule : {"best", "one_se"}, default="best"
        "best": the best score, ties to the smaller cost; "one_se": the smallest cost within one standard error of it.
    kernels : as in `AbsentMKLClassifier`, or a dict {name: choice} to choose among, default=None
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
    C_, program_, pattern_weight_, min_share_ : what was chosen
    duality_gap_ : relative duality gap of the fit (the largest over classes)
    patterns_ : (patterns, n_kernels) boolean, the distinct sets of channels that training samples have and that are
        contained in no other
    present_share_ : (n_kernels,) share of the training samples that have each channel
    kernel_weights_ : weights of the kernels, adding up to one
    dual_coef_ : coefficients of the rows
    instance_importance_ : signed percentages of the coefficients
    kernel_importance_, feature_importance_ : percentages of the weights; of features where every kernel stands on one
    channel_ranges_ : (outputs, kept kernels, 3) what each channel contributes to training samples that have it: the 5%,
        50% and 95% quantiles
    landmark_error_ : `LandmarkError` of the kept kernels where landmarks were used: the shares `mean` and `largest` of
        the variance k(x, x) of training rows that are lost, and the landmarks `rank` behind each kernel
    cv_results_ : dict of arrays, one entry per cell tried, with the mean number of features over folds
    n_splits_ : folds that were used
    scoring_ : the score that decided
    kernels_choice_ : the name of the kernels that were chosen; "kernels" where there was no choice
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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tamis import AbsentMKLClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    >>> clf = AbsentMKLClassifierCV(Cs=(0.1, 1.0), pattern_weights=(0.5,), cv=2).fit(X[:150, :8], y[:150])
    >>> clf.C_ in (0.1, 1.0), clf.program_ in ("amkl", "sum"), bool(clf.score(X[:, :8], y) > 0.85)
    (True, True, True)
    """

    citation = LIU2015
    _has_margin = True
    _recipe = per_feature()

    channel_ranges_: np.ndarray

    def __init__(
        self,
        Cs: Sequence[float] = (0.1, 1.0, 10.0, 100.0),
        programs: Sequence[str] = ("amkl", "sum"),
        pattern_weights: Sequence[Any] = (None, 0.5, 1.0),
        min_shares: Sequence[float] = (0.0, 0.05),
        *,
        tol: float = 0.001,
        max_iter: int = 200,
        multiclass: str = "one_vs_rest",
        landmarks: int | None = None,
        device: str | None = None,
        cv: Any = 5,
        scoring: str = "log_loss",
        rule: str = "best",
        kernels: Any = None,
        class_weight: Any = None,
        scaling: str | None = "standard",
        missing: str | None = "absent",
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.programs = programs
        self.pattern_weights = pattern_weights
        self.min_shares = min_shares
        self.tol = tol
        self.max_iter = max_iter
        self.multiclass = multiclass
        self.landmarks = landmarks
        self.device = device
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.kernels = kernels
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
        check_search(self)
        for name in ("Cs", "programs", "pattern_weights", "min_shares"):
            check_values(name, getattr(self, name))
        for program in self.programs:
            check_choice("programs", program, PROGRAMS)
        for value in self.pattern_weights:
            check_pattern_weight("pattern_weights", value)
        for cell in self._grid(""):
            self._single(**{**asdict(cell), "kernels": None}).check_parameters()

    def _kernel_choices(self) -> dict[str, Any]:
        return kernel_choices(self.kernels)

    def _single(self, **point: Any) -> AbsentMKLClassifier:
        """The classifier without a search at one point of the grid."""
        return single_classifier(self, AbsentMKLClassifier, **point)

    def _at(self, cell: Cell) -> AbsentMKLClassifier:
        return self._single(**{**asdict(cell), "kernels": self._kernel_choices()[cell.kernels]}, verbose=0)

    def _grid(self, kernels: str) -> list[Cell]:
        """All cells with the kernels of that name, those of one setting together and the smallest cost first."""
        settings: list[tuple[str, Any, float]] = []
        for program in self.programs:
            if program != "amkl":
                settings.append((program, None, 0.0))
                continue
            for weight, share in product(self.pattern_weights, self.min_shares):
                if weight is None or share == min(self.min_shares):
                    settings.append((program, weight, float(share) if weight is None else 0.0))
        return [Cell(kernels, *setting, C) for setting in dict.fromkeys(settings) for C in sorted(set(self.Cs))]

    def _fit_rows(self, rows: Rows, context: FitContext) -> Fitted:
        found = search_cells(self, partial(self._try_cells, context.seed), rows, context.seed, lambda cell, _: cell.C)
        return found.fitted(self._at(found.cell).set_params(verbose=self.verbose), rows, context)

    def _try_cells(self, seed: int, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """What all cells do on one fold."""
        out: dict[Cell, HeldOut] = {}
        for name in self._kernel_choices():
            out |= self._try_with(name, seed, train, test)
        return out

    def _try_with(self, kernels: str, seed: int, train: Rows, test: Rows) -> dict[Cell, HeldOut]:
        """What the cells with the kernels of that name do."""
        grid = self._grid(kernels)
        first = self._at(grid[0])
        prepared = first._space().prepare(train, first.kernels, seed)
        first._check_kernels(prepared, seed)
        tasks = first._tasks(prepared, rough=True)
        known: dict[Any, dict[float, HeldOut]] = {}  # the patterns may make settings the same
        out: dict[Cell, HeldOut] = {}
        for setting in dict.fromkeys(replace(cell, C=grid[0].C) for cell in grid):
            shapes = tuple(self._at(setting)._shape(task) for task in tasks)
            if shapes not in known:
                known[shapes] = self._path(setting, tasks, prepared, test)
            out |= {replace(setting, C=C): held for C, held in known[shapes].items()}
        return out

    def _path(self, setting: Cell, tasks: Sequence[Task], prepared: PreparedRows, test: Rows) -> dict[float, HeldOut]:
        """What one setting does for every cost, each found from the last; the tasks have the setting's own cost."""
        starts: list[Answer | None] = [None] * len(tasks)
        last, out = setting.C, {}
        for C in sorted(set(self.Cs)):
            estimator = self._at(replace(setting, C=C))
            answers = [
                estimator._answer(replace(task, cost=task.cost * (C / setting.C)), _scaled(start, C / last))
                for task, start in zip(tasks, starts, strict=True)
            ]
            objective = sum(a.solution.objective for a in answers) / float(prepared.encoded.rows.weight.sum())
            out[C] = HeldOut.of_model(estimator._assemble(prepared, answers), test, objective)
            starts, last = [*answers], C
        return out

    def _memory(self, size: Size) -> MemoryEstimate:
        return self._single()._memory(size)

    def _less_memory(self, size: Size, room: float) -> str:
        return self._single()._less_memory(size, room)

    def without_search(self) -> Any:
        """Return the unfitted classifier without a search, with what was chosen."""
        return self._single(**chosen_point(self, [field.name for field in fields(Cell)]))

    def extended(self, values: Any) -> AbsentMKLClassifierCV:
        """Return the same classifier for further items, as `AbsentMKLClassifier.extended` does."""
        return extended(self, values)

    def explain(self, X: Any) -> ChannelExplanation:
        """Split decisions into the contributions of samples and channels, with the channels that each row has."""
        return explain_channels(self, X, super().explain(X))

    def _turn_signs(self) -> None:
        super()._turn_signs()
        self.channel_ranges_ = mirrored(self.channel_ranges_)

    def summary(self) -> dict[str, Any]:
        check_is_fitted(self)
        patterns = {"pattern weight": self.pattern_weight_, "least share of a pattern": self.min_share_}
        own = {"cost C": self.C_, "program": self.program_, **(patterns if self.program_ == "amkl" else {})}
        return own | choice_in_words(self) | weights_in_words(self) | landmarks_in_words(self) | super().summary()


def _scaled(answer: Answer | None, ratio: float) -> Answer | None:
    """An answer as the start for costs `ratio` times as large."""
    return None if answer is None else replace(answer, dual_coef=answer.dual_coef * ratio)
