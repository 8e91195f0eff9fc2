"""From training rows to the model of the flagship.

Every part is fitted once for each bag, the rows outside one fold of a (repeated) split, and the model is the mean over
the bags. The rows that a bag leaves out say when to stop, how much to shrink and what to keep:

1. `select` chooses the columns, and repeats the choice on the folds to see how far it can be trusted.
2. Additive members of different roughness (`steps`, `ridge`) are weighted by their held-out loss (`score`).
3. Pairs are kept that pay on rows that neither chose nor fitted them (`surfaces`).
4. Cases pull what is left (`cases`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from tamis.errors import warn
from tamis.flagship.cases import keep_cases
from tamis.flagship.cells import Cases
from tamis.flagship.design import MAX_CELLS, Bags, Design, raw_encoder, resolution
from tamis.flagship.likelihood import Binary, Likelihood, Multinomial, Normal
from tamis.flagship.model import AdditiveModel
from tamis.flagship.reading import Population
from tamis.flagship.ridge import fit_curves
from tamis.flagship.score import Score, fit_main_effects, gain_of, shrinkage
from tamis.flagship.select import Selection, select, smallest_within_error, support_path
from tamis.flagship.surfaces import add_pairs
from tamis.table.encoding import Encoder
from tamis.table.folds import deal, positions, rank_keys, resolve_cv
from tamis.table.rows import Rows, merge_places, part_of

AUTO = "auto"
MAX_AUTO = 30  # columns that "auto" may keep
MAX_SAMPLE_FOLDS = 10  # of a sample, the first of which judges
REPEATS = ((400, 3), (1200, 2))  # times that the folds are drawn, where there are fewer rows; else once
PILOT_RIDGES, PILOT_RANK = (30.0, 3.0), 6  # of the fit that measures the noise of numbers
MIN_VARIANCE = 1e-4  # of the noise, relative to that of the numbers


@dataclass(frozen=True)
class Settings:
    """What a user may choose about a fit.

    Attributes
    ----------
    max_features : most columns that are kept, or "auto"
    max_pairs, max_instances : most pairs and cases
    cv : folds, as in `tamis.table.folds.folds`
    missing : "absent", "median" or None
    n_jobs : number of threads or processes
    """

    max_features: int | str
    max_pairs: int
    max_instances: int
    cv: Any
    missing: str | None
    n_jobs: int | None


@dataclass(frozen=True)
class Outcome:
    """What a fit ends in.

    Attributes
    ----------
    model : its scores are log-odds (two classes: of the second one; more: before a softmax), or predictions
    path : see `fit_path`; None unless the number of columns was chosen
    loss : held-out loss of the model without its cases, per row: log-loss, or squared error
    n_splits : number of folds
    n_rows : number of rows of positive weight that were used
    """

    model: AdditiveModel
    path: dict[str, np.ndarray] | None
    loss: float
    n_splits: int
    n_rows: int


@dataclass(frozen=True)
class Prepared:
    """Training rows, merged and placed in cells.

    Attributes
    ----------
    rows : distinct rows
    encoder, design : of all columns
    bags : what is fitted and left out
    likelihood : of the targets
    units : centre and unit of numbers to predict, None for classes
    informative : columns that vary
    n_rows : number of rows before they were merged
    folds : (n, B) weights of the rows in each fold, of which a bag of a sample leaves out the first
    """

    rows: Rows
    encoder: Encoder
    design: Design
    bags: Bags
    likelihood: Likelihood
    units: tuple[float, float] | None
    informative: np.ndarray
    n_rows: int
    folds: np.ndarray

    @classmethod
    def of(cls, rows: Rows, settings: Settings, seed: int, sampled_from: Population | None = None) -> Prepared:
        """Merge rows, place them in cells and deal the folds; of a sample the first fold is enough."""
        cells, every = MAX_CELLS, settings.cv
        if sampled_from is not None:
            cells, every = resolution(sampled_from.n_rows)[0], min(int(resolve_cv(settings.cv)), MAX_SAMPLE_FOLDS)
        splits, n_first = _splits(rows, every, seed)
        dealt = splits
        if sampled_from is not None:
            splits, n_first = splits[:1], 1
        rows = _even(rows)
        distinct, places = merge_places(rows)
        distinct = part_of(distinct, places, rows, np.arange(len(rows)))
        targets, units = _targets(distinct)
        everything = np.arange(len(rows))
        bags = Bags.of(len(distinct), places, rows, splits or [(everything, everything)], n_first, targets)
        encoder = raw_encoder(distinct.table, distinct.mass, settings.missing, cells)
        if sampled_from is not None:
            encoder = sampled_from.widened(encoder)
        design = Design.of(encoder, distinct.table, distinct.weight, cells, capped=sampled_from is not None)
        informative = np.flatnonzero(np.count_nonzero(design.mass, axis=1) > 1) if splits else np.empty(0, dtype=int)
        likelihood = _likelihood(distinct, design.take(informative), bags)
        folds = Bags.of(len(distinct), places, rows, dealt or [(everything, everything)], 1, targets).outside
        return cls(distinct, encoder, design, bags, likelihood, units, informative, len(rows), folds)

    @property
    def unit_of_loss(self) -> float:
        """What turns losses into mean log-losses, or mean squared errors in the squared unit of y."""
        if self.units is None or not isinstance(self.likelihood, Normal):
            return 1.0
        return 2.0 * self.likelihood.variance * self.units[1] ** 2


def fit_additive(rows: Rows, settings: Settings, seed: int) -> Outcome:
    """Fit curves, surfaces and cases to rows of a table, with classes or with a response."""
    given = Prepared.of(rows, settings, seed)
    likelihood, bags = given.likelihood, given.bags
    selection, path = _support(given, settings)
    design = given.design.take(selection.columns)
    score = fit_main_effects(design, likelihood, bags, settings.n_jobs)
    gain = gain_of(likelihood, bags, score.constant, score.held)
    beyond_luck = shrinkage(gain - selection.luck)
    factor = max(min(selection.trust, shrinkage(gain)), beyond_luck)
    score = score.shrunk(factor)
    optimism = selection.optimism(likelihood, bags, score.constant, factor)
    if settings.max_pairs and design.n_columns > 1:
        trust = max(selection.trust, beyond_luck)
        score = add_pairs(score, design, likelihood, bags, settings.max_pairs, trust)
    score = score.centred(design).contrasted()
    kept = score.used_columns
    score, design, columns = score.take(kept), design.take(kept), selection.columns[kept]
    model = additive_model(given, score, design, columns, settings.max_instances, seed)
    total = max(bags.weight.sum(), np.finfo(float).tiny)
    loss = (float(bags.weight @ likelihood.losses(score.held, bags.targets)) + optimism) / total
    return Outcome(model, path, loss * given.unit_of_loss, bags.n_first, given.n_rows)


def additive_model(
    given: Prepared,
    score: Score,
    design: Design,
    columns: np.ndarray,
    max_instances: int,
    seed: int,
    *,
    surely: bool = False,
) -> AdditiveModel:
    """Add cases to a score, perhaps only if they `_surely_pay`, and return the model in the units of the targets."""
    Z = given.encoder.encode(given.rows.table)[:, columns]
    cases, chosen = keep_cases(score, design, given.likelihood, given.bags, given.rows, Z, max_instances, seed)
    if surely and not _surely_pay(cases, score, design, given):
        cases, chosen = keep_cases(score, design, given.likelihood, given.bags, given.rows, Z, 0, seed)
    model = AdditiveModel(
        given.encoder.select(columns),
        columns,
        given.rows.position[chosen],
        score.base,
        design.cells,
        tuple(design.curve(j, score.left[j], score.right[j]) for j in range(design.n_columns)),
        score.surfaces,
        cases,
    )
    if given.units is not None:
        centre, unit = given.units
        model = model.scaled(unit)
        model = replace(model, intercept=model.intercept + centre)
    return model


def _surely_pay(cases: Cases, score: Score, design: Design, given: Prepared) -> bool:
    """Whether cases gain more than two standard errors on the rows left out by one bag."""
    if not len(cases):
        return True
    places = [design.places(j) for j in range(design.n_columns)]
    moved = score.held + cases.similarity(design.cells, places) @ cases.pull
    before, after = (given.likelihood.losses(F, given.bags.targets) for F in (score.held, moved))
    weight, gain = given.bags.weight, before - after
    mean = float(weight @ gain) / float(weight.sum())
    return float(weight @ gain) > 2.0 * float(np.sqrt(weight**2 @ (gain - mean) ** 2))


def fit_path(rows: Rows, settings: Settings, seed: int) -> dict[str, np.ndarray]:
    """Return nested supports, and how well light models on them do on rows that had no part in their choice.

    Returns
    -------
    dict with `n_features` (s,); `features` (s,), for each the columns; `loss` (s,), per row; `error` (s,), the standard
    error of its difference from the smallest loss
    """
    given = Prepared.of(rows, settings, seed)
    most = MAX_AUTO if settings.max_features == AUTO else int(settings.max_features)
    return path_of(given, most)


def path_of(given: Prepared, most: int) -> dict[str, np.ndarray]:
    """Return the `fit_path` of prepared rows."""
    told = given.informative
    path = support_path(given.design.take(told), given.likelihood, given.bags, min(most, len(told)))
    supports = np.empty(len(path["features"]), dtype=object)
    supports[:] = [tuple(int(told[j]) for j in support) for support in path["features"]]
    unit = given.unit_of_loss
    return {**path, "features": supports, "loss": path["loss"] * unit, "error": path["error"] * unit}


def _support(given: Prepared, settings: Settings) -> tuple[Selection, dict[str, np.ndarray] | None]:
    """The columns to keep, and the path on which their number was chosen, if it was."""
    told, path = given.informative, None
    if settings.max_features == AUTO:
        path = path_of(given, MAX_AUTO) if len(told) > 1 else None
        most = len(told) if path is None else smallest_within_error(path)
    else:
        most = int(settings.max_features)
    if len(told) <= most:
        return Selection.everything(told), path
    found = select(given.design.take(told), given.likelihood, given.bags, most)
    return replace(found, columns=told[found.columns]), path


# ---------------------------------------------------------------------- rows


def _even(rows: Rows) -> Rows:
    """Rows of positive weight; class weights leave the weight of all rows as it is."""
    if not rows.weight.all():
        rows = rows.take(np.flatnonzero(rows.weight > 0))
    return replace(rows, weight=rows.weight * (rows.mass.sum() / rows.weight.sum()))


def _splits(rows: Rows, cv: Any, seed: int) -> tuple[list, int]:
    """Positions of the training and test rows of all bags, among rows of positive weight.

    Returns
    -------
    pairs of positions, none where nothing can be held out; and how many are of the first repetition
    """
    cv, used = resolve_cv(cv), rows.weight > 0
    if not isinstance(cv, Integral):
        pairs = positions(cv, rows.labels, rows.groups, rows.table.numbers)
        place = np.cumsum(used) - 1
        pairs = [(place[a[used[a]]], place[b[used[b]]]) for a, b in pairs]
        usable = [pair for pair in pairs if len(pair[0]) and len(pair[1])]
        if not usable:
            raise ValueError(f"cv={str(cv)[:80]} leaves no fold with training and test rows: give others, or a number")
        if len(usable) < len(pairs):
            lost = len(pairs) - len(usable)
            warn(f"{lost} of {len(pairs)} folds are left out: a part of them has no row of positive weight")
        return usable, len(usable)
    rows = rows if used.all() else rows.take(np.flatnonzero(used))
    repeats = next((times for limit, times in REPEATS if len(rows) < limit), 1)
    found: list = []
    for r in range(repeats):
        keys = rank_keys(rows.table, seed + r)
        found.append(deal(keys, _strata(rows, int(cv)), rows.groups, int(cv), seed + r, rows.ties))
    if not found[0]:
        warn("nothing can be held out, because all rows are of one group: no feature is kept")
    return [pair for dealt in found for pair in dealt], max(1, len(found[0]))


def _strata(rows: Rows, n_splits: int) -> np.ndarray | None:
    """Classes (n,) by which folds are stratified; those with fewer rows (or groups) than folds are joined.

    A fold may lack a rare class, which it then finds very unlikely.
    """
    if rows.response is not None:
        return None
    units = np.arange(len(rows)) if rows.groups is None else rows.groups
    counts = np.array([len(np.unique(units[rows.codes == c])) for c in range(len(rows.classes))])
    rare = counts[rows.codes] < n_splits
    alone = len(np.unique(units[rare])) >= n_splits  # enough for a stratum of their own
    return np.where(rare, -1 if alone else counts.argmax(), rows.codes)


def _targets(rows: Rows) -> tuple[np.ndarray, tuple[float, float] | None]:
    """Targets (n, c), and for numbers the centre and the unit in which they are measured."""
    if rows.response is not None:
        y, share = rows.response, rows.mass / rows.mass.sum()
        largest = max(float(np.max(np.abs(y))), 1e-290)
        centre = float(share @ (y / largest))
        spread = float(np.sqrt(share @ (y / largest - centre) ** 2))
        unit = largest * spread if np.ptp(y) > 0 and spread > 0 else 1.0
        return ((y / largest - centre) * (largest / unit))[:, None], (largest * centre, unit)
    if len(rows.classes) == 2:
        return (rows.codes == 1).astype(float)[:, None], None
    return np.eye(len(rows.classes))[rows.codes], None


def _likelihood(rows: Rows, design: Design, bags: Bags) -> Likelihood:
    if rows.response is None:
        return Binary() if len(rows.classes) == 2 else Multinomial()
    pilot = fit_curves(design, Normal(1.0), bags, "smooth", PILOT_RIDGES, PILOT_RANK)
    return Normal(max(2.0 * pilot.loss, MIN_VARIANCE))
