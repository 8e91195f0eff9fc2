"""TamisRegressor: the parts of `TamisClassifier`, for numbers."""

from __future__ import annotations

from sklearn.metrics import r2_score

from tamis.codec import stored
from tamis.data.rows import Rows
from tamis.errors import warn
from tamis.methods.blend import Numbers
from tamis.models.calibration import Calibrator
from tamis.models.model import Model
from tamis.shells.blending import Blending, Held
from tamis.shells.parameters import parameters
from tamis.shells.regressing import KernelRegressor, Units


@stored
@parameters
class TamisRegressor(Blending, KernelRegressor):
    """A regressor of at most k training cases and m features, tuned by itself, adding up exactly.

    The parts of `TamisClassifier`, fitted by least squares: a prediction is the sum of what features say
    (`shape_function`), what pairs of features say (`surface`) and the pull of similar cases, and equally the sum of
    what the kept cases say (`explain`), in the units of y.

    Notes
    -----
    What is said of contributions, weights and many rows in the notes of `TamisClassifier` holds here too. The loss
    is the squared error: a few values of y that are far beyond the others pull hard, so transform y first.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from tamis import TamisRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = TamisRegressor(max_instances=10, max_features=5, interactions=3).fit(X, y)
    >>> len(model.instances_), len(model.features_), len(model.pairs_)
    (10, 5, 3)
    >>> explanation = model.explain(X.head())
    >>> bool(abs(explanation.decision[:, 0] - model.predict(X.head())).max() < 1e-9)
    True
    """

    _likelihood = Numbers()

    def _units(self, rows: Rows) -> Rows:
        return _units_of(rows).into(rows)

    def _select(self, rows: Rows) -> tuple[Model, Calibrator | None]:
        model, _, _ = self._blended(rows)
        return _units_of(rows).back(model), None

    def _warn_unheld(self) -> None:
        warn(
            "nothing can be held out, because there is one row, group or fold alone: the members of the blend are "
            "weighed on training rows, which favours those that follow them most closely",
        )

    def _scores(self, held: Held) -> dict[str, float]:
        tests = held.tests
        return {"r2": r2_score(tests.targets, held.decision, sample_weight=tests.mass)}


def _units_of(rows: Rows) -> Units:
    counted = rows.mass > 0
    return Units.of(rows.targets[counted, 0], rows.mass[counted])
