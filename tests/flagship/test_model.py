"""AdditiveModel by hand: cells, curves, surfaces and cases whose values are known."""

import array_api_strict
import numpy as np
import pytest

from tamis import codec
from tamis.flagship import cells
from tamis.flagship import model as module
from tamis.flagship.cells import Cases, Cells, Curve, Edges, Surface
from tamis.flagship.model import AdditiveModel
from tamis.table.encoding import Encoder, Nominal, Number

GAP = np.nan


def number(low, high):
    return Number(low, high, 0.0, 1.0, None, None, GAP)


def table(*values):
    return np.array(values, dtype=float)[:, None]


@pytest.fixture
def model():
    """Number x with cells (0, 1], (1, 3]; category c with levels p and q; a pair of both, and two cases."""
    encoder = Encoder((number(0.0, 3.0), Nominal(("p", "q"), GAP)), ("x", "c"))
    cells = Cells(2, np.array([0.0, 1.0, 3.0])), Cells(2, np.empty(0))
    curves = Curve(table(-1, 2, 0.5, 0), table(1, 4, 0.5, 0)), Curve(*[table(0.25, -0.25, 0.75, 0)] * 2)
    values = np.arange(12.0).reshape(4, 3, 1)
    values[-1], values[:, -1] = 0.0, 0.0
    surface = Surface((0, 1), (np.arange(4), np.array([0, 1, 1, 2])), values)
    coordinates = Curve(np.array([0.0, 1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.0, 0.0])), Curve(np.zeros(4), np.zeros(4))
    rows = np.array([[1.0, 0.0], [GAP, 1.0]])
    cases = Cases(rows, coordinates, np.array([0.5, 2.0]), np.array([[3.0], [-2.0]]))
    return AdditiveModel(
        encoder, np.array([4, 7]), np.array([10, 20]), np.array([0.125]), cells, curves, (surface,), cases
    )


def rows():
    """Ordinary rows, ends of cells, beyond the range, missing cells, and a level that was never seen."""
    return np.array([[0.5, 0], [1.0, 1], [1.5, 0], [3.0, 0], [9.0, 1], [-5.0, 1], [GAP, 0], [2.0, GAP], [2.0, -1]])


class TestCells:
    @pytest.mark.parametrize("kind", ["normal", "skewed", "equal", "tiny", "huge", "two", "one", "none"])
    def test_values_are_found_as_by_a_binary_search(self, kind):
        rng = np.random.default_rng(0)
        values = rng.normal(size=5000)
        edges = np.sort(rng.normal(size=47))
        if kind == "skewed":
            values, edges = np.exp(6 * values), np.exp(6 * edges)
        elif kind == "equal":
            edges = np.round(edges, 1)
            values = np.round(values, 1)
        elif kind in ("tiny", "huge"):
            unit = 5e-324 if kind == "tiny" else 1e306
            values, edges = unit * np.round(values * 9), unit * np.unique(np.round(edges * 9))
        elif kind in ("two", "one", "none"):
            edges = edges[: {"two": 2, "one": 1, "none": 0}[kind]]
        values = np.concatenate([values, edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        found = Edges.of([edges, edges[:2]])
        expected = [np.searchsorted(edges, values), np.searchsorted(edges[:2], values)]
        np.testing.assert_array_equal(found.find(np.array([values, values])), expected)
        few = np.array([values[:9], values[:9]])
        np.testing.assert_array_equal(found.find(few), np.array(expected)[:, :9])


class TestTables:
    def test_a_curve_is_linear_between_the_ends_of_a_cell(self, model):
        found = model.parts(rows()).features[:, 0]
        np.testing.assert_allclose(found[:, 0], [0.0, 1.0, 2.5, 4.0, 4.0, -1.0, 0.5, 3.0, 3.0])
        np.testing.assert_allclose(found[:, 1], [0.25, -0.25, 0.25, 0.25, -0.25, -0.25, 0.25, 0.75, 0.0])

    def test_a_surface_is_constant_on_coarse_cells(self, model):
        np.testing.assert_allclose(model.parts(rows()).pairs[:, 0, 0], [0, 1, 3, 3, 4, 1, 6, 4, 0])

    def test_similarity_is_a_gap_where_levels_differ_or_a_cell_is_missing(self, model):
        similarity = model.parts(rows()).similarity
        first = [0.25, 2.0, 0.0625, 1.0, 3.0, 3.0, 0.5, 2.25, 2.25]  # from the row (1, p)
        second = [2.5, 0.5, 2.5, 2.5, 0.5, 0.5, 2.0, 2.5, 2.5]  # from the row (missing, q)
        np.testing.assert_allclose(-np.log(similarity), np.column_stack([first, second]), atol=1e-12)
        np.testing.assert_array_equal(np.diag(model.parts(model.cases.rows).similarity), 1.0)

    def test_scores_are_the_intercept_and_all_parts(self, model):
        parts = model.parts(rows())
        total = 0.125 + sum(part.sum(axis=2) for part in (parts.features, parts.pairs, parts.cases))
        np.testing.assert_allclose(model.scores(rows()), total, atol=1e-12)
        np.testing.assert_allclose(model.negated().scores(rows()), -total, atol=1e-12)
        np.testing.assert_allclose(model.shifted(2.0).scores(rows()), total + 2.0, atol=1e-12)

    def test_scores_have_the_same_bits_in_blocks(self, model, monkeypatch):
        Z = np.tile(rows(), (70, 1))
        whole = model.scores(Z)
        for size in (1, 5, 33, 300):
            parts = [model.scores(Z[k : k + size]) for k in range(0, len(Z), size)]
            np.testing.assert_array_equal(np.concatenate(parts), whole)
        monkeypatch.setattr("tamis.flagship.scorer.Scorer.block_rows", 40)
        np.testing.assert_array_equal(model.scores(Z), whole)

    def test_an_explanation_has_the_bits_of_the_scores(self, model):
        found = model.explanation(model.summands(rows()), range(9), ["yes"], ["a", "b"])
        np.testing.assert_array_equal(found.decision, model.scores(rows()))
        assert found.part_names == ["x", "c", "x * c", "similar cases"]
        assert found.parts == [("x",), ("c",), ("x", "c"), ("x", "c")]
        np.testing.assert_allclose(found.by_part[:, :, 3], found.by_case.sum(axis=2))
        np.testing.assert_allclose(found.by_case[:, 0], found.similarity * [3.0, -2.0])

    def test_another_array_library_gives_the_same(self, model, monkeypatch):
        strict = array_api_strict.asarray
        for place in (module, cells):
            monkeypatch.setattr(place, "is_tensor", lambda X: not isinstance(X, np.ndarray))
            monkeypatch.setattr(place, "beside", lambda a, b: a if isinstance(b, np.ndarray) else strict(np.asarray(a)))
        there = strict(rows())
        np.testing.assert_allclose(np.asarray(model.scores(there)), model.scores(rows()), atol=1e-14)
        np.testing.assert_allclose(np.asarray(model.summands(there)), model.summands(rows()), atol=1e-14)


class TestDrawing:
    def test_a_curve_is_given_at_both_ends_of_each_cell(self, model):
        grid, values = model.curve(0, None)
        assert grid.tolist() == [0.0, 1.0, 1.0, 3.0] and values[:, 0].tolist() == [-1.0, 1.0, 2.0, 4.0]
        grid, values = model.curve(1, None)
        assert grid.tolist() == ["p", "q"] and values[:, 0].tolist() == [0.25, -0.25]
        assert model.curve(0, np.array([GAP, 2.0]))[1][:, 0].tolist() == [0.5, 3.0]

    def test_a_surface_is_given_at_both_ends_of_each_coarse_cell(self, model):
        a, b, values = model.surface((0, 1), (None, None))
        assert a.tolist() == [0.0, 1.0, 1.0, 3.0] and b.tolist() == ["p", "q"]
        assert values[:, :, 0].tolist() == [[0, 1], [0, 1], [3, 4], [3, 4]]
        b, a, other = model.surface((1, 0), (None, np.array([0.5, GAP])))
        assert other[:, :, 0].tolist() == [[0, 6], [1, 7]]

    def test_pairs_come_with_the_largest_first(self, model):
        both = module.replace(model, surfaces=(model.surfaces[0], model.surfaces[0].scaled(2.0)))
        assert both.pairs(np.array([1.0, 1.0, 2.0, 5.0, 1.0])) == [(0, 1), (0, 1)]
        np.testing.assert_allclose(both.by_feature(np.array([1.0, 1.0, 2.0, 5.0, 9.0]), ""), [4.5, 4.5])


class TestFiles:
    def test_a_model_comes_back_as_it_was(self, model, tmp_path):
        for one in (model, module.replace(model, instances=np.empty(0, int), cases=self.none(model))):
            codec.write(tmp_path / "file", "model", one)
            again = codec.read(tmp_path / "file", "model")
            again.check_parts()
            np.testing.assert_array_equal(again.scores(rows()), one.scores(rows()))

    @staticmethod
    def none(model):
        return module.replace(model.cases, rows=model.cases.rows[:0], pull=model.cases.pull[:0])

    def test_a_model_without_columns_is_a_constant(self, model, tmp_path):
        nothing = AdditiveModel(
            Encoder((), ()),
            np.empty(0, int),
            np.empty(0, int),
            np.array([0.5]),
            (),
            (),
            (),
            Cases(np.empty((0, 0)), (), np.empty(0), np.empty((0, 1))),
        )
        codec.write(tmp_path / "file", "model", nothing)
        again = codec.read(tmp_path / "file", "model")
        again.check_parts()
        assert again.is_constant and again.scores(np.empty((3, 0))).tolist() == [[0.5]] * 3
        assert again.explanation(again.summands(np.empty((3, 0))), range(3), ["yes"], []).by_part.shape == (3, 1, 0)
