from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tamis.kernels.spectrum as module
from tamis.base.kernel_model import KernelExpansion
from tamis.codec import read, stored, write
from tamis.kernels.bank import Channel, KernelBank, check_positive
from tamis.kernels.base import Categorical, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.precomputed import precomputed
from tamis.kernels.recipes import Sample, bandwidths, per_feature
from tamis.kernels.spectrum import repaired


def sample(Z, seed=0):
    n, d = Z.shape
    return Sample(Z, [f"f{j}" for j in range(d)], np.zeros(d, dtype=bool), np.ones((n, 1)), np.ones(n), 20, seed)


def one(kernel, columns=(0,)):
    return KernelBank((Channel("mine", kernel, columns),))


def spectrum(K):
    return np.linalg.eigh(0.5 * (K + K.T))


@stored
@dataclass(frozen=True)
class Dipole:
    """Indefinite: the product of the first column less that of the second."""

    def __call__(self, S, T):
        return np.nan_to_num(S) @ np.diag([1.0, -1.0]) @ np.nan_to_num(T).T


class TestCheck:
    @pytest.mark.parametrize(
        "kernel",
        [Gaussian(0.3), Gaussian(0.3, (0.0, 2.0)), Laplacian(2.0), Categorical(), Polynomial(3, 0.5), Polynomial(1, 0)],
        ids=str,
    )
    def test_kernels_that_say_they_are_positive_are(self, kernel, rng):
        Z = np.column_stack([rng.normal(size=60), rng.integers(0, 3, 60).astype(float)])
        Z[rng.uniform(size=Z.shape) < 0.2] = np.nan
        lam, _ = spectrum(kernel(Z, Z))
        assert kernel.positive and lam[0] > -1e-10 * lam[-1]
        check_positive(one(kernel, (0, 1)), Z, 0)

    def test_known_kernels_are_not_evaluated(self):
        words = np.full((3, 1), "no numbers")
        check_positive(one(Gaussian()), words, 0)
        assert repaired(one(Gaussian())).bank(sample(words), 1.0) == one(Gaussian())

    @pytest.mark.parametrize("kernel", [Polynomial(2, -1.0), Polynomial(0.5, 1.0), Sigmoid()], ids=str)
    def test_others_do_not_say_so(self, kernel):
        assert not getattr(kernel, "positive", False)

    def test_an_indefinite_kernel_is_named_with_its_eigenvalues_and_the_ways_out(self, rng):
        Z = rng.normal(size=(40, 2))
        lam, _ = spectrum(Dipole()(Z, Z))
        with pytest.raises(ValueError, match="'mine' is not positive semi-definite") as error:
            check_positive(KernelBank((Channel("mine", Dipole(), (0, 1)),)), Z, 0)
        ways = ("L0MKLClassifier", "'clip'", "'flip'", "'shift'")
        for words in (f"from {lam[0]:.3g} to {lam[-1]:.3g}", "40 training rows", *ways):
            assert words in str(error.value)

    def test_positive_functions_of_users_pass(self, rng):
        Z = rng.normal(size=(30, 2))
        check_positive(one(lambda S, T: S @ T.T, (0, 1)), Z, 0)
        check_positive(one(lambda S, T: np.zeros((len(S), len(T)))), Z, 0)
        check_positive(one(lambda S, T: (S @ T.T).astype(np.float32), (0, 1)), Z, 0)

    @pytest.mark.parametrize("n", [5, 40, 250])
    def test_rounding_to_single_precision_is_no_offence_but_more_is(self, rng, n):
        A = rng.normal(size=(n, n // 2))
        K = A @ A.T
        positions = np.arange(n, dtype=float)[:, None]
        single = precomputed(K.astype(np.float32)).bank(sample(positions), 1.0)
        check_positive(single, positions, 0)
        lam, U = spectrum(K)
        bent = precomputed(K - 3e-5 * lam[-1] * np.outer(U[:, 0], U[:, 0])).bank(sample(positions), 1.0)
        with pytest.raises(ValueError, match="'kernel 0' is not positive"):
            check_positive(bent, positions, 0)

    def test_rows_are_drawn_by_the_seed(self, rng, monkeypatch):
        monkeypatch.setattr("tamis.kernels.bank.MAX_CHECKED_ROWS", 10)
        seen = []

        def watching(S, T):
            seen.append(S[:, 0])
            return Gaussian()(S, T)

        Z = np.arange(30.0)[:, None]
        for seed in (0, 0, 1):
            check_positive(one(watching), Z, seed)
        assert all(len(np.unique(rows)) == 10 and (np.diff(rows) > 0).all() for rows in seen)
        assert np.array_equal(seen[0], seen[1]) and not np.array_equal(seen[0], seen[2])

    @pytest.mark.parametrize(
        ("function", "match"),
        [
            (lambda S, T: np.exp(S - T.T), r"'mine' is not symmetric: .* differ by up to"),
            (lambda S, T: np.full((len(S), len(T)), np.nan), "'mine' gives NaN or infinite"),
            (lambda S, T: np.full((len(S), len(T)), np.inf), "'mine' gives NaN or infinite"),
            (
                lambda S, T: np.ones(len(S)),
                r"'mine' gives an array of shape \(6,\).*must give an array of numbers of the shape \(6, 6\)",
            ),
            (lambda S, T: np.ones((len(S), len(T)), dtype=complex), "'mine' gives .* type complex"),
        ],
    )
    def test_functions_that_are_no_kernel_are_refused(self, function, match, rng):
        Z = rng.normal(size=(6, 1))
        with pytest.raises(ValueError, match=match):
            check_positive(one(function), Z, 0)
        with pytest.raises(ValueError, match=match):
            repaired(one(function)).bank(sample(Z), 1.0)


class TestRepair:
    @pytest.fixture(params=["sigmoid", "dipole", "precomputed"])
    def case(self, request, rng):
        """A recipe or bank, training rows and new rows."""
        if request.param == "precomputed":
            A = rng.normal(size=(40, 40))
            return precomputed(A + A.T), np.arange(30.0)[:, None], np.arange(30.0, 40.0)[:, None]
        Z = rng.normal(size=(40, 2))
        source = per_feature(Sigmoid(0.8, 0.3)) if request.param == "sigmoid" else one(Dipole(), (0, 1))
        return source, Z[:30], Z[30:]

    @staticmethod
    def channels(source, how, Z):
        before = source if isinstance(source, KernelBank) else source.bank(sample(Z), 1.0)
        return zip(before.channels, repaired(source, how).bank(sample(Z), 1.0).channels, strict=True)

    @pytest.mark.parametrize("how", ["clip", "flip", "shift"])
    def test_the_training_spectrum_is_modified_as_promised(self, case, how):
        source, Z, _ = case
        for old, new in self.channels(source, how, Z):
            lam, U = spectrum(old(Z, Z))
            changed = {"clip": np.maximum(lam, 0), "flip": np.abs(lam), "shift": lam - lam[0]}[how]
            assert lam[0] < -0.01 * lam[-1] and new.name == old.name and new.columns == old.columns
            np.testing.assert_allclose(new(Z, Z), (U * changed) @ U.T, atol=1e-6 * np.abs(lam).max())

    @pytest.mark.parametrize("how", ["clip", "flip"])
    def test_new_rows_are_treated_as_the_anchors_are(self, case, how):
        """Values with the anchors are transformed by U [lam > 0] U' or U sign(lam) U'."""
        source, Z, other = case
        for old, new in self.channels(source, how, Z):
            lam, U = spectrum(old(Z, Z))
            large = np.abs(lam) > 1e-8 * np.abs(lam).max()
            factor = large * ((lam > 0) if how == "clip" else np.sign(lam))
            scale = np.abs(old(other, Z)).max()
            np.testing.assert_allclose(new(other, Z), old(other, Z) @ (U * factor) @ U.T, atol=1e-6 * scale)
            np.testing.assert_allclose(new(Z, other), new(other, Z).T, atol=1e-9 * scale)

    @pytest.mark.parametrize("how", ["clip", "flip"])
    def test_old_and_new_rows_together_have_a_positive_gram_matrix(self, case, how):
        source, Z, other = case
        both = np.concatenate([Z, other])
        made = repaired(source, how).bank(sample(Z), 1.0)
        for channel in made.channels:
            lam, _ = spectrum(channel(both, both))
            assert lam[0] > -1e-9 * lam[-1] and channel.kernel.positive
        check_positive(made, both, 0)

    def test_a_shift_touches_only_equal_rows(self, case):
        source, Z, other = case
        for old, new in self.channels(source, "shift", Z):
            np.testing.assert_array_equal(new(other, Z), old(other, Z))
            np.testing.assert_allclose(np.diag(new(other, other) - old(other, other)), -spectrum(old(Z, Z))[0][0])

    def test_a_shift_promises_nothing_for_other_rows(self, rng):
        Z = rng.normal(size=(20, 2))
        made = repaired(one(Dipole(), (0, 1)), "shift").bank(sample(Z), 1.0)
        check_positive(made, Z, 0)
        with pytest.raises(ValueError, match="'mine' is not positive"):
            check_positive(made, 9 * Z, 0)

    def test_a_shift_knows_missing_cells_and_leaves_absent_rows_zero(self, rng):
        Z = rng.normal(size=(12, 2))
        Z[1], Z[2] = [0.5, np.nan], [0.5, np.nan]
        Z[3] = Z[4] = np.nan
        (channel,) = repaired(one(Dipole(), (0, 1)), "shift").bank(sample(Z), 1.0).channels
        extra = (channel(Z, Z) - Dipole()(Z, Z)) / channel.kernel.shift
        same = np.eye(12)
        same[1, 2] = same[2, 1] = 1
        same[[3, 4], [3, 4]] = 0
        np.testing.assert_allclose(extra, same, atol=1e-12)

    def test_a_shift_is_enough_where_rows_repeat(self, rng):
        Z = rng.integers(0, 3, size=(40, 2)).astype(float)
        (channel,) = repaired(one(Dipole(), (0, 1)), "shift").bank(sample(Z), 1.0).channels
        lam, _ = spectrum(channel(Z, Z))
        assert lam[0] > -1e-12 * lam[-1]

    def test_absent_rows_stay_absent(self, rng):
        Z = rng.normal(size=(12, 1))
        Z[3] = np.nan
        for how in ("clip", "flip", "shift"):
            (channel,) = repaired(per_feature(Sigmoid()), how).bank(sample(Z), 1.0).channels
            K = channel(Z, Z)
            assert not K[3].any() and not K[:, 3].any() and K[0, 0] > 0

    @pytest.mark.parametrize("how", ["clip", "flip", "shift"])
    def test_positive_kernels_stay_as_they_are(self, rng, how):
        Z = rng.normal(size=(20, 2))
        known = bandwidths([0.5, 2.0], on="both")
        assert repaired(known, how).bank(sample(Z), 1.0) == known.bank(sample(Z), 1.0)
        unknown = one(lambda S, T: S @ T.T, (0, 1))
        assert repaired(unknown, how).bank(sample(Z), 1.0) == unknown

    def test_what_is_repaired_passes_the_check_on_more_rows_than_anchors(self, rng, monkeypatch):
        monkeypatch.setattr(module, "MAX_ANCHORS", 40)
        Z = rng.normal(size=(200, 2))
        for how in ("clip", "flip", "shift"):
            made = repaired(per_feature(Sigmoid(2.0, 1.0)), how).bank(sample(Z), 1.0)
            for channel in made.channels:
                lam, _ = spectrum(channel(Z, Z))
                assert lam[0] > -1e-9 * lam[-1]
                assert how == "shift" or len(np.unique(channel.kernel.anchors)) == 40

    def test_anchors_are_drawn_by_the_seed(self, rng, monkeypatch):
        monkeypatch.setattr(module, "MAX_ANCHORS", 10)
        Z = rng.normal(size=(40, 1))
        first, again, other = (repaired(per_feature(Sigmoid())).bank(sample(Z, seed), 1.0) for seed in (0, 0, 1))
        assert first == again and first != other

    def test_nothing_left_is_told(self, rng):
        Z = rng.normal(size=(9, 1))
        negative = one(lambda S, T: -Gaussian()(S, T))
        with pytest.raises(ValueError, match=r"'mine' has no positive eigenvalue.*use 'flip'"):
            repaired(negative, "clip").bank(sample(Z), 1.0)
        (channel,) = repaired(negative, "flip").bank(sample(Z), 1.0).channels
        np.testing.assert_allclose(channel(Z, Z), Gaussian()(Z, Z), atol=1e-6)

    def test_wrong_arguments_are_refused(self, rng):
        with pytest.raises(ValueError, match="how='clap' is unknown: use 'clip', 'flip' or 'shift'"):
            repaired(per_feature(), "clap")
        with pytest.raises(ValueError, match="is neither a recipe"):
            repaired([("a", Sigmoid(), 0)])
        with pytest.raises(ValueError, match="uses column 7, but X has 2 columns"):
            repaired(one(Sigmoid(), (7,))).bank(sample(rng.normal(size=(5, 2))), 1.0)


class TestAsAValue:
    def test_recipe_and_bank_come_back_from_a_file(self, rng, tmp_path):
        Z = rng.normal(size=(15, 2))
        for how in ("clip", "flip", "shift"):
            recipe = repaired(per_feature(Sigmoid()) + repaired(one(Dipole(), (0, 1)), how), how)
            made = recipe.bank(sample(Z), 1.0)
            for value in (recipe, made):
                write(tmp_path / "f", "thing", value)
                assert read(tmp_path / "f", "thing") == value
            np.testing.assert_array_equal(read(tmp_path / "f", "thing").channels[2](Z, Z), made.channels[2](Z, Z))

    def test_it_adds_up_compares_and_prints(self, rng):
        Z = rng.normal(size=(15, 2))
        clip, flip = repaired(per_feature(Sigmoid())), repaired(per_feature(Sigmoid()), "flip")
        assert (clip + clip).bank(sample(Z), 1.0) == clip.bank(sample(Z), 1.0) != flip.bank(sample(Z), 1.0)
        assert clip == repaired(per_feature(Sigmoid())) != flip and hash(clip) != hash(flip)
        assert repr(flip) == f"repaired({per_feature(Sigmoid())!r}, 'flip')" and not flip.positions
        kernel = flip.bank(sample(Z), 1.0).channels[0].kernel
        assert repr(kernel) == "Repaired(Sigmoid(scale=1.0, offset=0.0), 'flip', 15 anchors)"


@pytest.mark.parametrize("how", ["clip", "shift"])
def test_repaired_precomputed_kernels_shrink_and_take_new_items(how, rng):
    """A fitted model keeps the columns of its anchors (or, shifted, of its instances) and predicts as before."""
    A = rng.normal(size=(20, 20))
    K = A + A.T
    Z, every = np.arange(10.0)[:, None], np.arange(12.0)[:, None]
    recipe = repaired(precomputed(K[:12, :12]), how)
    assert recipe.positions and recipe.bank(sample(Z), 1.0).positions
    coef = np.zeros((1, 10, 1))
    coef[0, [2, 5], 0] = 1.0, -1.0
    whole = KernelExpansion(recipe.bank(sample(Z), 1.0), Z, np.zeros(1), coef)
    small = whole.restricted()[0]
    np.testing.assert_allclose(small.decision(every), whole.decision(every), atol=1e-12)
    (channel,) = small.bank.channels
    items = channel.kernel.kernel.items
    assert items.tolist() == ([2, 5] if how == "shift" else list(range(10)))
    known = repaired(precomputed(K), how).bank(sample(Z), 1.0).channels[0]
    new, kept = np.arange(12.0, 20.0)[:, None], Z[[2, 5]]
    np.testing.assert_allclose(channel.kernel.extended(K[12:][:, items])(new, kept), known(new, kept), atol=1e-9)
