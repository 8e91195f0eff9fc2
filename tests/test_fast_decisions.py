"""Decisions from tables against the sums that they stand for."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tamis.expansion as expansion
import tamis.kernels.parts as parts
import tamis.kernels.tables as tables
import tamis.parallel as parallel
from tamis import EM2NOLCClassifier, TamisClassifier
from tamis.codec import write
from tamis.expansion import CentredExpansion, KernelExpansion
from tamis.kernels.axes import CELLS, Codes, Numbers, factors, make_axis
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Gaussian, Laplacian, ScaledGaussian
from tamis.kernels.mixture import Mixture, Tensor

SHAPE = Mixture((3.0, 1.0, 1 / 3))
NUMBERS, CODES = (0, 1, 2, 3), (4, 5)


@pytest.fixture
def tabulated(monkeypatch):
    monkeypatch.setattr(expansion, "TABLE_ROWS", 1)
    monkeypatch.setattr(tables, "BLOCK_ROWS", 97)
    monkeypatch.setattr(parts, "BLOCK", 300)


def channels() -> dict[str, tuple]:
    """Kernels that have tables, with their columns: four of numbers, two of codes."""
    return {
        "shape": (SHAPE, (0,)),
        "line": (Gaussian(6.0), (0,)),
        "narrow": (Gaussian(0.2), (1,)),
        "scaled": (ScaledGaussian((4.0,)), (2,)),
        "code": (Categorical(), (4,)),
        "costly code": (Gaussian(0.8, (1.5,)), (5,)),
        "numbers": (Tensor((SHAPE, SHAPE)), (0, 1)),
        "others": (Tensor((SHAPE, Gaussian(0.5))), (1, 3)),
        "number and code": (Tensor((SHAPE, Categorical())), (3, 4)),
        "code and number": (Tensor((Categorical(), SHAPE)), (4, 0)),
        "codes": (Tensor((Categorical(), Categorical())), (4, 5)),
        "cases": (Mixture((4.0, 2.0), (0.0, 0.0, 0.0, 0.0, 0.7, 0.0)), (0, 1, 2, 3, 4, 5)),
        "rough and fine": (Mixture((4.0, 1.0, 0.25)), (1, 2)),
        "cloud": (Gaussian(1.5), (0, 2)),
    }


def table(rng, n: int, gaps: float = 0.1) -> np.ndarray:
    """Encoded rows, with codes up to 3 and some that no instance has."""
    Z = np.column_stack([rng.normal(size=(n, len(NUMBERS))), rng.integers(-1, 4, size=(n, len(CODES)))])
    Z[rng.random(Z.shape) < gaps] = np.nan
    return np.asfortranarray(Z)


def random_expansion(rng, kernels: dict, *, q: int = 2, k: int = 7, gaps: float = 0.1) -> KernelExpansion:
    instances = table(rng, k, gaps)
    instances[:, CODES] = np.where(np.isnan(instances[:, CODES]), np.nan, rng.integers(0, 3, size=(k, 2)))
    bank = KernelBank(tuple(Channel(name, *entry) for name, entry in kernels.items()))
    return KernelExpansion(bank, instances, rng.normal(size=q), rng.normal(size=(q, k, len(kernels))))


def exact(whole: KernelExpansion, Z: np.ndarray) -> np.ndarray:
    return whole.intercept + whole.contributions(Z).sum(axis=(2, 3))


def error(whole: KernelExpansion, Z: np.ndarray) -> np.ndarray:
    """Largest error (q,) in units of the sum of the largest moduli of the channels on these rows."""
    _, by_kernel = whole.split(Z)
    moduli = np.abs(by_kernel).max(axis=0).sum(axis=1)
    return np.abs(whole.decision(Z) - exact(whole, Z)).max(axis=0) / moduli


@pytest.mark.parametrize("name", channels())
def test_each_kernel_has_a_table_that_is_right_to_a_millionth(name, tabulated, rng):
    whole = random_expansion(rng, {name: channels()[name]})
    assert whole._tables is not None
    assert not any(isinstance(part, parts.Exact) for part in whole._tables.parts)
    Z = table(rng, 400)
    assert error(whole, Z).max() < 1e-6
    Z[7], Z[50:60, 0], Z[60:70] = np.nan, 40.0, -30.0  # absent rows, values far beyond the instances
    assert error(whole, Z).max() < 1e-6


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_all_channels_together_are_right_to_a_millionth(q, gaps, seed, tabulated):
    rng = np.random.default_rng(seed)
    whole = random_expansion(rng, channels(), q=q, k=12, gaps=gaps)
    Z = table(rng, 500, gaps)
    Z[::50, :4] *= 30.0
    assert error(whole, Z).max() < 1e-6
    centred = CentredExpansion.around(whole, Z[:100], np.ones(100))
    assert isinstance(centred, CentredExpansion) and centred._tables is not None
    np.testing.assert_allclose(centred.decision(Z), exact(whole, Z), atol=1e-5)


def test_rows_far_from_zero_are_right_too(tabulated, rng):
    kernels = {"cloud": (Gaussian(1.5), (0, 2)), "rough and fine": (Mixture((4.0, 0.25)), (1, 2))}
    whole, far = random_expansion(rng, kernels, gaps=0.0), np.array([1e7, -1e6, 1e5, 0.0, 0.0, 0.0])
    moved = KernelExpansion(whole.bank, whole.instances + far, whole.intercept, whole.coef)
    Z = table(rng, 300, 0.0)
    np.testing.assert_allclose(moved.decision(Z + far), exact(whole, Z), atol=1e-6)


def test_the_bound_holds_on_a_fine_grid(tabulated):
    z = np.linspace(-2.0, 3.0, 4001)[:, None]
    for kernel in (SHAPE, Gaussian(0.05), Gaussian(9.0)):
        bank = KernelBank((Channel("a", kernel, (0,)),))
        whole = KernelExpansion(bank, np.array([[-1.0], [0.3], [1.9]]), np.zeros(1), np.array([[[1.0], [-2.0], [0.7]]]))
        assert np.abs(whole.decision(z) - exact(whole, z)).max() < 5e-7 * 3.7


def test_heavy_tails_are_cut_and_rows_beyond_are_exact(tabulated, rng):
    names = ("shape", "numbers", "others")
    instances = table(rng, 9, 0.0)
    instances[:2, :2] = [[300.0, -200.0], [-50.0, 80.0]]
    bank = KernelBank(tuple(Channel(name, *channels()[name]) for name in names))
    whole = KernelExpansion(bank, instances, np.zeros(1), rng.normal(size=(1, 9, 3)))
    pairs = [part for part in whole._tables.parts if isinstance(part, tables.Pair)]
    assert any(side.lookup is not None for pair in pairs for side in pair.sides)
    Z = table(rng, 300)
    Z[:40, :2] = 10.0 ** rng.uniform(0, 3, size=(40, 2))
    Z[40:42] = instances[:2]
    assert error(whole, Z).max() < 1e-6


def test_one_instance_and_constant_columns_have_tables(tabulated, rng):
    kernels = {name: channels()[name] for name in ("shape", "numbers", "cases")}
    whole = random_expansion(rng, kernels, k=1, gaps=0.0)
    Z = np.repeat(whole.instances, 20, axis=0)
    np.testing.assert_allclose(whole.decision(Z), exact(whole, Z), atol=1e-6)
    Z[:, 0] += np.linspace(-9.0, 9.0, 20)
    np.testing.assert_allclose(whole.decision(Z), exact(whole, Z), atol=1e-6)
    whole.instances[:, 0] = np.nan
    np.testing.assert_allclose(replaced(whole).decision(Z), exact(whole, Z), atol=1e-6)


def replaced(whole: KernelExpansion) -> KernelExpansion:
    return KernelExpansion(whole.bank, whole.instances, whole.intercept, whole.coef)


def test_other_kernels_are_exact_beside_tables(tabulated, rng):
    rough = {"rough": (Laplacian(1.0), (1,)), "three": (Tensor((SHAPE,) * 3), (0, 1, 2))}
    assert random_expansion(rng, rough)._tables is None
    whole = random_expansion(rng, {**rough, "shape": channels()["shape"]})
    kinds = [type(part).__name__ for part in whole._tables.parts]
    assert sorted(kinds) == ["Exact", "Exact", "Shape"]
    assert error(whole, table(rng, 200)).max() < 1e-6


def test_pairs_without_room_are_exact(tabulated, rng, monkeypatch):
    monkeypatch.setattr(tables, "MEMORY", 1 << 19)
    kernels = {name: channels()[name] for name in ("shape", "numbers", "others", "codes")}
    whole = random_expansion(rng, kernels, q=1)
    kinds = sorted(type(part).__name__ for part in whole._tables.parts)
    assert kinds == ["Exact", "Exact", "Pair", "Shape"]
    assert error(whole, table(rng, 200)).max() < 1e-6


def test_few_rows_are_exact_and_many_are_not(rng):
    whole = random_expansion(rng, channels(), q=1)
    Z = table(rng, expansion.TABLE_ROWS)
    few = whole.decision(Z[:-1])
    assert "_tables" not in vars(whole)
    np.testing.assert_allclose(few[:300], exact(whole, Z[:300]), rtol=0, atol=1e-12)
    many = whole.decision(Z)
    assert "_tables" in vars(whole)
    assert 0 < np.abs(many[:-1] - few).max() < 1e-5
    np.testing.assert_array_equal(whole.decision(Z[:-1]), few)


def test_threads_and_neighbours_change_nothing(rng, monkeypatch):
    whole = random_expansion(rng, channels(), q=2)
    Z = table(rng, 5 * tables.BLOCK_ROWS + 3)
    found = []
    for cores in (1, 2, 3):
        for module in (parallel, tables):
            monkeypatch.setattr(module, "available_cores", lambda cores=cores: cores)
        found.append(whole.decision(Z))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_tables_go_into_no_pickle_copy_or_file(rng, tmp_path):
    whole = random_expansion(rng, channels(), q=1)
    size = len(pickle.dumps(whole))
    write(tmp_path / "before", "model", whole)
    whole.decision(table(rng, expansion.TABLE_ROWS))
    assert len(pickle.dumps(whole)) == size
    write(tmp_path / "after", "model", whole)
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert "_tables" not in vars(copy.copy(whole)) and "_tables" not in vars(pickle.loads(pickle.dumps(whole)))
    Z = table(rng, 20)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(whole)).decision(Z), whole.decision(Z))


@pytest.mark.parametrize("clf", [TamisClassifier(6, 5, interactions=3, cv=2), EM2NOLCClassifier(6, 4)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classifiers_say_the_same_of_many_rows_as_of_few(clf, rng):
    X = rng.normal(size=(150, 6))
    X[:, 5] = rng.integers(0, 3, 150)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.where(np.isnan(X[:, 0]), 0.0, X[:, 0] * np.nan_to_num(X[:, 1])) + (X[:, 5] == 1) > 0.2
    clf = clf.set_params(categorical_features=[5]).fit(X, y)
    many = np.tile(X, (60, 1))
    assert len(many) >= expansion.TABLE_ROWS
    few, whole = clf.decision_function(X), clf.decision_function(many)
    scale = np.abs(clf.model_.expansion.coef).sum()
    assert np.abs(whole[:150] - few).max() <= 1e-7 * scale
    np.testing.assert_allclose(whole.reshape(60, 150), whole[None, :150].repeat(60, 0), atol=1e-7 * scale)
    np.testing.assert_array_equal(clf.predict(many)[:150], clf.predict(X))


def test_axes_say_which_kernels_have_cells():
    assert [key for key, _ in factors(Channel("a", Tensor((SHAPE, Categorical())), (2, 4)))] == [(2, False), (4, True)]
    assert factors(Channel("a", Laplacian(1.0), (0,))) == []
    assert factors(Channel("a", Tensor((SHAPE, Laplacian(1.0))), (0, 1))) == []
    assert factors(Channel("a", SHAPE, (0, 1))) == []
    assert make_axis([Categorical()], np.array([0.5, 1.0])) is None
    assert make_axis([Categorical()], np.array([2.0, np.nan, 5.0])) == Codes(2, 4)
    wide = make_axis([Gaussian(1e-3)], np.array([0.0, 100.0]))
    assert isinstance(wide, Numbers) and wide.size == CELLS


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("offset", [0.0, 2.0**40])
def test_decisions_far_from_zero_are_sums_of_contributions_too(rng, columns, offset):
    Z = np.round(rng.normal(size=(expansion.TABLE_ROWS, columns)) * 64) / 64 + offset
    bank = KernelBank((Channel("all", Mixture((3.0, 1.0)), tuple(range(columns))),))
    model = KernelExpansion(bank, Z[:20], np.zeros(1), rng.normal(size=(1, 20, 1)))
    whole = model.contributions(Z).sum(axis=(2, 3))
    np.testing.assert_allclose(model.decision(Z), whole, atol=1e-6 * np.abs(model.coef).sum())
