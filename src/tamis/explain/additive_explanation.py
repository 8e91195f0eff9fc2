"""Explanations of additive models: contributions of features, of pairs of them, and of similar cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tamis.arrays import is_tensor, namespace
from tamis.explain.explanation import SIMILAR, Explanation, part_name


@dataclass(frozen=True, repr=False)
class AdditiveExplanation(Explanation):
    """Exact contributions of features, pairs of features and kept cases to scores.

    The base value and all contributions of a row add up to its decision. What a feature or a pair contributes is zero
    on average over the training rows; what a case contributes is not centred: it is nothing for a row that does not
    resemble the case.

    Attributes
    ----------
    by_feature : (rows, outputs, features), the curve of each feature at the value of the row
    by_pair : (rows, outputs, pairs), what the two features add together
    by_case : (rows, outputs, cases)
    similarity : (rows, cases) of the row and each case, from 0 to 1
    features : names of the kept features
    pairs : names of both features of each kept pair
    values : {feature: (rows,) values of the explained rows}, where these are in memory, else None
    and those of `Explanation`; the instances are the cases
    """

    by_feature: np.ndarray
    by_pair: np.ndarray
    by_case: np.ndarray
    similarity: np.ndarray
    features: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    values: Mapping[str, np.ndarray] | None = None

    def __repr__(self) -> str:
        rows, outputs, features = self.by_feature.shape
        kept = f"{features} features, {len(self.pairs)} pairs, {len(self.instances)} cases"
        return f"AdditiveExplanation({rows} rows, {outputs} outputs, {kept})"

    @property
    def _arrays(self) -> tuple[str, ...]:
        return "decision", "by_feature", "by_pair", "by_case", "similarity"

    @property
    def by_instance(self) -> np.ndarray:
        return self.by_case

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """Every feature, every pair, and if there are cases all features, which decide how similar they are."""
        cases = [tuple(self.features)] if len(self.instances) else []
        return [*((name,) for name in self.features), *self.pairs, *cases]

    @property
    def part_names(self) -> list[str]:
        cases = [SIMILAR] if len(self.instances) else []
        return [*self.features, *map(part_name, self.pairs), *cases]

    @property
    def by_part(self) -> np.ndarray:
        """Contributions (rows, outputs, parts): of features, of pairs, and of all cases together."""
        arrays = [self.by_feature, self.by_pair]
        if len(self.instances):
            arrays.append(self.by_case.sum(axis=2)[:, :, None])
        xp = namespace(self.by_feature) if is_tensor(self.by_feature) else np
        return xp.concatenate(arrays, axis=2) if xp is np else xp.concat(arrays, axis=2)

    def against(self, first: Any, second: Any) -> AdditiveExplanation:
        """Return the log-odds of one of several classes against another one, taken apart.

        The scores of several classes go through a softmax, so the difference of two of them is the log-odds of the
        first class against the second. The result has this one output, with the differences of all contributions.
        """
        outputs = list(self.outputs)
        for output in (first, second):
            if output not in outputs:
                raise ValueError(f"{output!r} has no score: the scores are those of {outputs}")
        q, r = outputs.index(first), outputs.index(second)
        differences = {
            name: getattr(self, name)[:, q : q + 1] - getattr(self, name)[:, r : r + 1]
            for name in ("decision", "by_feature", "by_pair", "by_case")
        }
        base_value = self.base_value[q : q + 1] - self.base_value[r : r + 1]
        return replace(self, base_value=base_value, outputs=[f"{first} against {second}"], **differences)

    def _columns(self) -> dict[str, list]:
        """Columns row, output, part, name, value, similarity, contribution; a line for every summand.

        `part` is "feature", "pair", "case" or "base value"; `value` that of a feature in the row, and `similarity` that
        of the row and a case.
        """
        columns: dict[str, list] = {
            name: [] for name in ("row", "output", "part", "name", "value", "similarity", "contribution")
        }
        for i, row in enumerate(self.rows):
            for q, output in enumerate(self.outputs):
                for line in self._lines(i, q):
                    for column, cell in zip(columns.values(), (row, output, *line), strict=True):
                        column.append(cell)
        return columns

    def _lines(self, i: int, q: int) -> list[tuple[str, Any, Any, float | None, float]]:
        """Part, name, value, similarity and contribution of every summand of one score."""
        values = self.values or {}
        lines: list[tuple[str, Any, Any, float | None, float]] = [
            ("base value", None, None, None, float(self.base_value[q]))
        ]
        for name, added in zip(self.features, self.by_feature[i, q].tolist(), strict=True):
            value = values[name][i] if name in values else None
            lines.append(("feature", name, value.item() if isinstance(value, np.generic) else value, None, added))
        for pair, added in zip(self.pairs, self.by_pair[i, q].tolist(), strict=True):
            lines.append(("pair", part_name(pair), None, None, added))
        cases = zip(self.instances, self.similarity[i].tolist(), self.by_case[i, q].tolist(), strict=True)
        lines += [("case", case, None, similarity, added) for case, similarity, added in cases]
        return lines
