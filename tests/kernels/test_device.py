"""Dense linear algebra on a device: the same numbers as numpy, to rounding, and models that do not need it."""

from __future__ import annotations

import pickle
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
from sklearn.base import clone

from tamis import (
    AbsentMKLClassifier,
    AbsentMKLClassifierCV,
    AverageMKLClassifier,
    EasyMKLClassifier,
    IMKPLClassifier,
    KernelSVMADMM,
    SimpleMKLClassifier,
    ZeroOneMKLClassifier,
    arrays,
    bandwidths,
    per_group,
    precomputed,
)
from tamis.io.models import load, save
from tamis.kernels.bank import Channel, KernelBank
from tamis.kernels.base import Categorical, Epanechnikov, Gaussian, Laplacian, Polynomial, Sigmoid
from tamis.kernels.composed import ScaledGaussian, Whole
from tamis.kernels.stacks.base import DenseStack
from tamis.kernels.stacks.device import DeviceStack, check_room
from tamis.optim.matrices import DeviceMatrix, factor, fill_diagonal, inner, with_diagonal

SAME = 1e-10  # of stacks and matrices, relative to the size of the result
MODEL = 1e-6  # of decisions: solvers stop at the same points, and end in the same linear systems
CLASSIFIERS = [
    SimpleMKLClassifier(calibration=None),
    SimpleMKLClassifier(solver="reduced_gradient", calibration=None),
    EasyMKLClassifier(calibration=None),
    AverageMKLClassifier(calibration=None),
    KernelSVMADMM(calibration=None),
    ZeroOneMKLClassifier(calibration=None),
    ZeroOneMKLClassifier(solver="admm", kernels=bandwidths([2.0]), calibration=None),
    IMKPLClassifier(prototype_size=3, calibration=None),
    IMKPLClassifier(prototype_size=3, weight_step="graph", calibration=None),
    AbsentMKLClassifier(program="mean_margin", calibration=None),
    AbsentMKLClassifier(
        kernels=per_group({"a": range(2), "b": range(2, 4)}), program="mean_margin", C=10.0, calibration=None
    ),
]


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield request.param
    torch.set_num_threads(threads)


def close(found, expected, tol=SAME):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tol * max(1.0, float(np.max(np.abs(expected)))))


def user_function(S, T):
    return np.cos(np.asarray(S)[:, :1] - np.asarray(T)[:, 0])


def channels():
    kernels = {
        "gaussian": (Gaussian(0.8), (0,)),
        "group": (Gaussian(1.5, (0.0, 0.0, 2.0)), (0, 1, 2)),
        "laplacian": (Laplacian(2.0), (0,)),  # of several columns the root of a distance near zero is right to 1e-8
        "epanechnikov": (Epanechnikov(2.0), (1,)),
        "polynomial": (Polynomial(2, 1.0), (0, 1)),
        "sigmoid": (Sigmoid(0.5, 0.1), (1,)),
        "categorical": (Categorical(), (2,)),
        "scaled": (ScaledGaussian((1.0, 0.0, 0.5), (0.0, 0.0, 2.0)), (0, 1, 2)),
        "whole": (Whole(Gaussian(1.0)), (0, 1)),
        "user": (user_function, (3,)),
    }
    return KernelBank(tuple(Channel(name, kernel, columns) for name, (kernel, columns) in kernels.items()))


@pytest.fixture
def rows(rng):
    X = np.column_stack([rng.normal(size=(30, 2)), rng.integers(0, 3, size=30).astype(float), rng.normal(size=30)])
    X[3, 0] = X[4, 1] = X[5, 2] = np.nan
    X[6, :3] = np.nan
    return X


@pytest.fixture
def stacks(rows, device):
    """The same kernels twice, square and not."""
    bank = channels()
    pairs = []
    for Y in (None, rows[:11]):
        dense = bank.stack(rows, Y, form="dense")
        moved = bank.stack(rows, Y, device=device)
        assert isinstance(dense, DenseStack) and isinstance(moved, DeviceStack) and moved.shape == dense.shape
        pairs.append((dense, moved))
    return pairs


def results(stack, rng):
    """What the operations of a stack give, by name, for the same vectors and weights."""
    L, m, n = stack.shape
    weights = rng.normal(size=L) * (rng.random(L) < 0.7)
    vector, several, matrix = rng.normal(size=n), rng.normal(size=(n, 3)), rng.normal(size=(m, n))
    return {
        "dense": stack.combine(weights).dense(),
        "matrix": np.asarray(stack.matrix(weights)),
        "weighted": stack.weighted(weights, slice(2, 9)),
        "columns": stack.combine(weights).columns(np.array([5, 1])),
        "one": stack.one(3),
        "block": stack.block(3, slice(2, 9)),
        "product": stack.product(weights, vector),
        "products": stack.combine(weights) @ several,
        "image": stack.apply(vector),
        "images": stack.apply(several),
        "quad": stack.quad(rng.normal(size=m), vector),
        "inner": stack.inner(matrix),
        "gram": stack.gram(np.array([4, 0, 7])),
        "none": stack.gram(np.arange(0)),
        "held": stack.held(1 << 30).rough(0.1).one(0),
    }


def test_every_operation_gives_the_numbers_of_the_dense_stack(stacks, rng):
    for dense, moved in stacks:
        found, expected = (results(stack, np.random.default_rng(0)) for stack in (moved, dense))
        for name, value in found.items():
            assert isinstance(value, np.ndarray) and value.shape == expected[name].shape, name
            if value.size:
                close(value, expected[name])
    (dense, moved), vector = stacks[0], rng.normal(size=30)
    close(moved.diagonal(), dense.diagonal())
    close(moved.quad(vector), dense.quad(vector))


def test_parts_of_a_stack_are_those_of_the_dense_stack(stacks):
    cut = {"rows": np.array([3, 1, 20]), "cols": np.array([0, 9]), "kernels": np.array([5, 2])}
    for dense, moved in stacks:
        for names in ((), ("rows",), ("cols",), ("kernels",), ("rows", "cols"), tuple(cut)):
            index = {name: cut[name] for name in names}
            part, expected = moved.take(**index), dense.take(**index)
            assert part.shape == expected.shape
            for k in range(part.shape[0]):
                close(part.one(k), expected.one(k))
        assert moved.take(rows=slice(2, 5)).shape == dense.take(rows=slice(2, 5)).shape
        empty = moved.take(kernels=np.arange(0))
        assert empty.shape[0] == 0 and not empty.combine(np.empty(0)).dense().any()


def test_a_matrix_on_the_device_is_as_one_of_numpy(device, rng):
    A = rng.normal(size=(9, 9))
    A, D, v = A @ A.T, rng.normal(size=(9, 9)), rng.normal(size=9)
    K, KD = (DeviceMatrix(arrays.to_device(M, device, "float64")) for M in (A, D))
    S, F = np.array([5, 0, 3]), np.array([1, 2])
    close(K @ v, A @ v)
    close(K @ D, A @ D)
    close(np.asarray(K + np.float64(0.3) * KD), A + 0.3 * D)
    close(np.asarray(K - KD * 2.0 + 1.0), A - 2.0 * D + 1.0)
    close(np.asarray(K[np.ix_(S, F)]), A[np.ix_(S, F)])
    close(K[:, F] @ v[F], A[:, F] @ v[F])
    close(K.diagonal(), np.diagonal(A))
    close(np.asarray(with_diagonal(K, v)), A + np.diag(v))
    close(with_diagonal(A, 2.0), A + 2.0 * np.eye(9))
    close(inner(K.values, KD.values), np.sum(A * D))
    fill_diagonal(KD.values, 0.0)
    close(KD.diagonal(), np.zeros(9))


def test_factors_solve_on_the_device_and_refuse_indefinite_matrices(device, rng):
    A = rng.normal(size=(8, 12))
    A, right = A @ A.T, rng.normal(size=(8, 3))
    for matrix in (A.copy(), DeviceMatrix(arrays.to_device(A, device, "float64"))):
        factored = factor(matrix)
        close(factored.solve(right), np.linalg.solve(A, right))
        close(factored.solve(right[:, 0]), np.linalg.solve(A, right[:, 0]))
    for matrix in (A - 100.0 * np.eye(8), DeviceMatrix(arrays.to_device(A - 100.0 * np.eye(8), device))):
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            factor(matrix)


def test_portable_kernels_stay_on_the_device_of_their_arrays(rows):
    elsewhere = array_api_strict.Device("device1")
    X, Y = (array_api_strict.asarray(Z, device=elsewhere) for Z in (rows[:, :3], rows[:5, :3]))
    for channel in channels().channels[:-1]:
        columns = list(channel.columns)
        S, T = (array_api_strict.take(Z, array_api_strict.asarray(columns, device=elsewhere), axis=1) for Z in (X, Y))
        found = channel.kernel(S, T)
        assert found.device == elsewhere, channel.name
        values = np.asarray(found.to_device(array_api_strict.Device("CPU_DEVICE")))
        close(values, channel.kernel(rows[:, columns], rows[:5, columns]))


# ---------------------------------------------------------------------- estimators


def tables(rng, n=90, n_classes=2):
    """Classes by two of four columns, with missing cells and wrong labels."""
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n), [0.4, 1.2][: n_classes - 1])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def same_model(one, other, X):
    close(one.decision_function(X), other.decision_function(X), MODEL)
    close(one.kernel_weights_, other.kernel_weights_, MODEL)
    np.testing.assert_array_equal(one.instances_, other.instances_)
    assert one.n_iter_ == other.n_iter_


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_model_is_that_of_numpy(classifier, n_classes, device, rng):
    X, y = tables(rng, n_classes=n_classes)
    same_model(clone(classifier).set_params(device=device).fit(X, y), clone(classifier).fit(X, y), X)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_calibration_and_searches_work_on_a_device(device, rng):
    X, y = tables(rng)
    weight = rng.integers(1, 4, size=len(y)).astype(float)
    one, other = (SimpleMKLClassifier(device=d).fit(X, y, sample_weight=weight) for d in (device, None))
    close(one.predict_proba(X), other.predict_proba(X), MODEL)
    searches = [
        AbsentMKLClassifierCV(Cs=(1.0,), pattern_weights=(0.5,), cv=2, device=d).fit(X, y) for d in (device, None)
    ]
    assert searches[0].program_ == searches[1].program_
    close(searches[0].decision_function(X), searches[1].decision_function(X), MODEL)


def test_precomputed_kernels_are_moved(device, rng):
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    values = np.array([Gaussian(h)(X, X) for h in (0.5, 2.0)])
    items = np.arange(40)[:, None]
    fits = [AverageMKLClassifier(kernels=precomputed(values), calibration=None, device=d) for d in (device, None)]
    one, other = (clf.fit(items, y) for clf in fits)
    close(one.decision_function(items), other.decision_function(items), MODEL)


WITHOUT_TORCH = """
import importlib.abc, sys
class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not here")
sys.meta_path.insert(0, NoTorch())
import numpy as np
from tamis.io.models import load
model = load(sys.argv[1])
print(repr(float(model.decision_function(np.zeros((1, 4)))[0])))
"""


@pytest.mark.parametrize("classifier", [CLASSIFIERS[0], CLASSIFIERS[7]], ids=lambda c: type(c).__name__)
def test_fitted_models_need_neither_torch_nor_the_device(classifier, device, rng, tmp_path):
    X, y = tables(rng)
    fitted = clone(classifier).set_params(device=device).fit(X, y)
    copied = pickle.dumps(fitted)
    assert b"torch" not in copied and pickle.loads(copied).device == device
    path = tmp_path / "model.json"
    save(fitted, path)
    close(load(path).decision_function(X), fitted.decision_function(X))
    run = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, str(path)], capture_output=True, text=True, check=True)
    close(float(run.stdout), fitted.decision_function(np.zeros((1, 4)))[0])


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "not the name of a device"),
        ("gpu", "is unknown"),
        ("meta", "float64"),
        ("cuda:99", "not available"),
    ],
)
def test_devices_that_are_not_there_are_refused_before_any_work(value, words, rng):
    pytest.importorskip("torch", reason="torch is not installed")
    for classifier in (SimpleMKLClassifier, IMKPLClassifier, AbsentMKLClassifierCV):
        with pytest.raises(ValueError, match=rf"device={value!r} .*{words}"):
            classifier(device=value).fit(None, None)


def test_a_missing_torch_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"device='cpu' needs torch: pip install 'tamis\[gpu\]'"):
        SimpleMKLClassifier(device="cpu").fit(None, None)
    SimpleMKLClassifier().check_parameters()


def test_more_values_than_a_device_can_hold_are_refused(monkeypatch):
    monkeypatch.setattr("tamis.kernels.stacks.device.free_bytes", lambda device: 1 << 30)
    check_room(2, 1000, 1000, "cuda")
    with pytest.raises(ValueError, match="device='cuda' has 1 GiB free"):
        check_room(10, 5000, 5000, "cuda")
