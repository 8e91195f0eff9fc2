"""Figures from rows: each function returns a function from rows to a figure, or to None without data.

Figures show the first split, except for means over splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.cells import FAILED, Row
from tamis.explain import measures

Maker = Callable[[Sequence[Row]], Any]
PANEL = 2.6  # inches
COLUMNS = 5
MAX_PANELS, MAX_BARS = 10, 10


def _by_dataset(rows: Sequence[Row], key: str, methods: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Return the data of rows under `key` by dataset and method."""
    out: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.extra.get(key) and (not methods or row.cell.method in methods):
            out.setdefault(row.cell.dataset, {}).setdefault(row.cell.method, row.extra[key])
    return dict(list(out.items())[:MAX_PANELS])


def _of(rows: Sequence[Row], key: str, method: str) -> dict[str, Any]:
    """Return the data of one method under `key` by dataset."""
    return {name: found[method] for name, found in _by_dataset(rows, key, [method]).items()}


def _panels(names: Sequence[str], height: float = PANEL) -> tuple[Any, list[Any]]:
    """Return a figure with one panel for each name, and the panels."""
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(PANEL * columns, height * lines), layout="constrained")
    axes = np.atleast_1d(figure.subplots(lines, columns, squeeze=False).ravel())
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    for ax, name in zip(axes, names, strict=False):
        ax.set_title(name, fontsize=9)
        ax.tick_params(labelsize=7)
    return figure, list(axes[: len(names)])


def _each(
    data: Mapping[str, Any], one: Callable[[Any, Any], Any], x: str = "", y: str = "", *, legend: bool = False
) -> Any:
    """Return a figure with a panel for each name, drawn by ``one(ax, its data)``; None without data."""
    if not data:
        return None
    figure, axes = _panels(list(data))
    for ax, found in zip(axes, data.values(), strict=True):
        one(ax, found)
    if legend:
        axes[0].legend(fontsize=6)
    if x:
        figure.supxlabel(x, fontsize=8)
        figure.supylabel(y, fontsize=8)
    return figure


def roc(methods: Sequence[str]) -> Maker:
    """Draw ROC curves of some methods on every dataset."""

    def draw(rows: Sequence[Row]) -> Any:
        score, truth = _by_dataset(rows, "scores", methods), _by_dataset(rows, "truth", methods)
        if not score:
            return None
        figure, axes = _panels(list(score))
        for ax, name in zip(axes, score, strict=True):
            for k, method in enumerate(m for m in methods if m in score[name]):
                positive = np.array(truth[name][method], dtype=bool)
                ax.plot(*measures.roc_curve(positive, np.array(score[name][method])), label=method, color=f"C{k}")
            ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
        axes[0].legend(fontsize=6, loc="lower right")
        figure.supxlabel("false positive rate", fontsize=8)
        figure.supylabel("true positive rate", fontsize=8)
        return figure

    return draw


def ks(method: str) -> Maker:
    """Draw the distributions of the scores of both classes."""

    def draw(rows: Sequence[Row]) -> Any:
        score, truth = _by_dataset(rows, "scores", [method]), _by_dataset(rows, "truth", [method])
        if not score:
            return None
        figure, axes = _panels(list(score))
        for ax, name in zip(axes, score, strict=True):
            positive, values = np.array(truth[name][method], dtype=bool), np.array(score[name][method])
            at, low, high = measures.ks_curve(positive, values)
            ax.step(at, low, label="first class", color="C0", where="post")
            ax.step(at, high, label="second class", color="C3", where="post")
            k = int(np.argmax(np.abs(low - high)))
            ax.vlines(at[k], high[k], low[k], color="0.3", linestyle=":")
        axes[0].legend(fontsize=6)
        figure.supxlabel(f"score of {method}", fontsize=8)
        figure.supylabel("share of the rows", fontsize=8)
        return figure

    return draw


def importance(method: str) -> Maker:
    """Draw the signed importance of features and of instances."""

    def draw(rows: Sequence[Row]) -> Any:
        data = _of(rows, "importance", method)
        kinds = ("features", "instances")
        data = {name: found for name, found in data.items() if all(kind in found for kind in kinds)}
        if not data:
            return None
        figure, axes = _panels([f"{name}: {kind}" for kind in kinds for name in data], 3.0)
        for ax, (kind, found) in zip(axes, ((k, f) for k in kinds for f in data.values()), strict=True):
            names, values = found[kind]["names"][:MAX_BARS][::-1], np.array(found[kind]["values"][:MAX_BARS][::-1])
            ax.barh(range(len(values)), values, color=np.where(values < 0, "C0", "C3"))
            ax.set_yticks(range(len(values)), [name[:18] for name in names], fontsize=6)
            ax.axvline(0, color="0.5", linewidth=0.6)
        figure.supxlabel("signed importance (%)", fontsize=8)
        return figure

    return draw


def heat(method: str) -> Maker:
    """Draw the correlation of the kept features."""

    def draw(rows: Sequence[Row]) -> Any:
        data = _of(rows, "correlation", method)
        if not data:
            return None
        figure, axes = _panels(list(data))
        for ax, found in zip(axes, data.values(), strict=True):
            image = ax.imshow(np.array(found["values"]), vmin=-1, vmax=1, cmap="RdBu_r")
            ax.set_xticks([])
            ax.set_yticks([])
        figure.colorbar(image, ax=axes, shrink=0.6, label="correlation")
        return figure

    return draw


def path(method: str) -> Maker:
    """Draw accuracy on folds against the feature budget, for some instance budgets."""

    def one(ax: Any, found: Any) -> None:
        values = 100 * np.array(found["accuracy"], dtype=float)
        for k, many in enumerate(found["max_instances"]):
            if many in (1, 5, found["max_instances"][-1]):
                ax.plot(found["max_features"], values[k], marker=".", label=f"{many} instances")

    labels = ("most features", "accuracy on folds (%)")
    return lambda rows: _each(_of(rows, "path", method), one, *labels, legend=True)


def features_path(method: str) -> Maker:
    """Draw accuracy on folds against the number of kept features, over penalties."""

    def one(ax: Any, found: Any) -> None:
        order = np.argsort(found["n_features"])
        ax.plot(np.array(found["n_features"])[order], 100 * np.array(found["accuracy"])[order], marker=".")

    return lambda rows: _each(_of(rows, "path", method), one, "features, mean over folds", "accuracy on folds (%)")


def convergence(*methods: str) -> Maker:
    """Draw the objective by iteration, of the first of some methods that has rows."""

    def one(ax: Any, values: Any) -> None:
        ax.plot(values, marker=".", markersize=3)
        ax.ticklabel_format(axis="y", useMathText=True)

    def draw(rows: Sequence[Row]) -> Any:
        method = next((m for m in methods if _by_dataset(rows, "history", [m])), methods[0])
        known = {n: [v for v in f["objective"] if v is not None] for n, f in _of(rows, "history", method).items()}
        several = {name: values for name, values in known.items() if len(values) > 1}
        return _each(several, one, "round", f"objective of {method}")

    return draw


def weights(method: str) -> Maker:
    """Draw the kernel weights by iteration."""

    def draw(rows: Sequence[Row]) -> Any:
        known = {name: found.get("weights") or [] for name, found in _of(rows, "history", method).items()}
        several = {name: np.array(values, dtype=float) for name, values in known.items() if len(values) > 1}
        return _each(several, lambda ax, values: ax.plot(values), "round", "weight of each kernel")

    return draw


def boundary(dataset: str, methods: Sequence[str]) -> Maker:
    """Draw decisions over the plane of two features."""

    def one(ax: Any, found: Any) -> None:
        (x, y), values = found["axes"], np.array(found["values"])
        most = float(np.max(np.abs(values)))
        ax.contourf(x, y, values, levels=np.linspace(-most, most, 13), cmap="RdBu_r", alpha=0.6)
        ax.contour(x, y, values, levels=[0.0], colors="0.2", linewidths=1.0)
        X, labels = np.array(found["X"]), np.array(found["y"])
        ax.scatter(*X.T, c=np.where(labels == 1, "C3", "C0"), s=6)
        ax.set_aspect("equal")

    def draw(rows: Sequence[Row]) -> Any:
        data = _by_dataset(rows, "plane", methods).get(dataset, {})
        return _each({m: data[m] for m in methods if m in data and data[m]["values"]}, one)

    return draw


def atlas() -> Maker:
    """Draw a t-SNE map of training rows and prototypes in the learned kernel."""

    def one(ax: Any, found: Any) -> None:
        ax.scatter(*np.array(found["rows"]).T, c=np.array(found["labels"]), cmap="tab20", s=5, alpha=0.6)
        stars = np.array(found["prototypes"]).T
        ax.scatter(*stars, c=found["owners"], cmap="tab20", s=40, marker="*", ec="k", lw=0.4)
        ax.set_xticks([])
        ax.set_yticks([])

    return lambda rows: _each({n: next(iter(f.values())) for n, f in _by_dataset(rows, "map").items()}, one)


def per_class() -> Maker:
    """Draw the number of prototypes of each class."""

    def one(ax: Any, found: Any) -> None:
        ax.bar(range(len(found)), list(found.values()), color="C0")

    def draw(rows: Sequence[Row]) -> Any:
        data = {name: next(iter(found.values())) for name, found in _by_dataset(rows, "per_class").items()}
        return _each(data, one, "class", "prototypes")

    return draw


def trade(measure: str) -> Maker:
    """Draw accuracy against another measure, with a point for each method and dataset."""

    def draw(rows: Sequence[Row]) -> Any:
        from matplotlib.figure import Figure

        good = [row for row in rows if row.status != FAILED and measure in row.measures]
        if not good:
            return None
        figure = Figure(figsize=(5.5, 3.6), layout="constrained")
        ax = figure.subplots()
        for k, method in enumerate(dict.fromkeys(row.cell.method for row in good)):
            own = [row for row in good if row.cell.method == method]
            sets = dict.fromkeys(row.cell.dataset for row in own)
            points = [_means(own, name, (measure, "accuracy")) for name in sets]
            x, y = np.array(points).T
            ax.scatter(x, y, label=method, color=f"C{k}", s=18)
        ax.set_xlabel(measure.upper() + " (%)", fontsize=8)
        ax.set_ylabel("accuracy (%)", fontsize=8)
        ax.legend(fontsize=6)
        return figure

    return draw


def by_setting(measure: str, label: str) -> Maker:
    """Draw a measure against the setting, with a line for each method."""

    def draw(rows: Sequence[Row]) -> Any:
        good = [row for row in rows if row.status != FAILED and measure in row.measures]
        sets = list(dict.fromkeys(row.cell.dataset for row in good))
        if not sets:
            return None
        methods = list(dict.fromkeys(row.cell.method for row in good))
        figure, axes = _panels(sets, 3.2)
        for ax, name in zip(axes, sets, strict=True):
            for k, method in enumerate(methods):
                own = [row for row in good if (row.cell.dataset, row.cell.method) == (name, method)]
                at = sorted({float(row.cell.setting) for row in own})
                values = [np.mean([r.measures[measure] for r in own if float(r.cell.setting) == x]) for x in at]
                ax.plot(at, values, marker=".", label=method, color=f"C{k % 10}", ls="-" if k < 10 else "--", lw=1)
        axes[-1].legend(fontsize=5)
        figure.supxlabel(label, fontsize=8)
        figure.supylabel(f"{measure} (%)", fontsize=8)
        return figure

    return draw


def _means(rows: Sequence[Row], dataset: str, names: Sequence[str]) -> list[float]:
    own = [row for row in rows if row.cell.dataset == dataset]
    return [float(np.mean([row.measures[name] for row in own if name in row.measures])) for name in names]
