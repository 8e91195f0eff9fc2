"""Whatever stands in a file, reading it gives an object or `Unreadable`: nothing runs, and memory stays bounded."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis import Job, Plan, Results, Statistics, codec, io, run
from tamis.flagship.cells import Cases, Cells, Curve, Surface

import hostile
from small_fits import fitted, mixed

PREDICTED = mixed(5)[0]
MODELS = ("TamisClassifier", "IMKPLClassifier", "PrototypeSelectionClassifier", "AbsentMKLClassifier")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def good(folder):
    """The entries of good files."""
    X, y = mixed()
    for name in MODELS:
        io.save(fitted(name), folder / name)
    run(X.assign(y=y), Job("y", method="EM2NOLCClassifier", max_instances=2, max_features=2)).save(folder / "Results")
    Statistics(Plan.of(X, y, folds=2)).update(X, y).save(folder / "Statistics")
    names = sorted([*MODELS, "Results", "Statistics"])  # tests without this fixture may have written there before
    return {name: hostile.entries_of((folder / name).read_bytes()) for name in names}


def used(kind, path):
    """Load a file and use what is in it, which must not crash."""
    load = {"Results": Results.load, "Statistics": Statistics.load}.get(kind, io.load)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = load(path)
        except io.Unreadable as error:
            return error
        try:
            if kind == "Statistics":
                loaded.update(*mixed(5))
            else:
                model = loaded.model if kind == "Results" else loaded
                model.predict(PREDICTED)
                model.explain(PREDICTED)
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("kind", [*MODELS, "Results", "Statistics"])
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_mutants_load_or_are_unreadable(kind, folder, good, rng):
    path = folder / "mutant"
    path.write_bytes(hostile.mutant(good[kind], rng))
    used(kind, path)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=300) | st.binary(max_size=200).map(lambda b: b"PK\x03\x04" + b + b"PK\x05\x06" + b))
def test_any_bytes_are_unreadable(folder, data):
    path = folder / "bytes"
    path.write_bytes(data)
    with pytest.raises(io.Unreadable):
        io.load(path)


# ---------------------------------------------------------------------- one attack each


class Trap:
    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


def content(text):
    return lambda entries: entries | {"content.json": text}


def first_array(data):
    return lambda entries: entries | {"arrays/0.npy": data}


ATTACKS = {
    "a pickle in an array": first_array(hostile.npy(np.array([Trap()], dtype=object))),
    "a pickle in place of the content": content(pickle.dumps(Trap())),
    "objects said to be numbers": first_array(hostile.forged("'|O'", (4,), b"\1" * 32)),
    "a huge array": first_array(hostile.forged("'<f8'", (2**40,))),
    "a huge empty array": first_array(hostile.forged("'<f8'", (0, 2**62))),
    "an array of nothing": first_array(hostile.forged("'<U0'", (2**40,))),
    "an array of records": first_array(hostile.forged("[('a', '<f8')]", (1,), b"\0" * 8)),
    "a header of a million letters": first_array(b"\x93NUMPY\x02\x00" + (10**6).to_bytes(4, "little") + b"(" * 10**6),
    "a header that is code": first_array(hostile.forged("__import__('os').system('false')", ())),
    "deep content": content(hostile.nested(100_000)),
    "deep lists": content(b"[" * 500_000 + b"]" * 500_000),
    "a number of a million digits": content(b"1" * 10**6),
    "a decimal of a million digits": content(b"[0." + b"1" * 10**6 + b"]"),
    "many small lists": content(b"[" + b"[]," * (codec.MAX_JSON_OBJECTS + 1) + b"1]"),
    "content that is no text": content(b"\xff\xfe\x00"),
    "a type of Python": content(b'{"$":"object","type":"eval","parts":{}}'),
    "a type with other fields": content(b'{"$":"object","type":"Gaussian","parts":{"__class__":1}}'),
    "a type that is no type": content(b'{"$":"object","type":["Gaussian"],"parts":{}}'),
    "a tag that cannot be hashed": content(b'{"$":{"$":"tuple"}}'),
    "a shape beyond all": content(b'{"$":"objects","shape":[99999999999999999999],"items":[]}'),
    "a key that cannot be hashed": content(b'{"$":"dict","items":[[[1],2]]}'),
    "an estimator in pieces": content(b'{"$":"object","type":"TamisClassifier","parts":{"params":{},"learned":{}}}'),
    "an archive in an archive": lambda entries: entries | {"content.json": hostile.packed(entries)},
    "no manifest": lambda entries: {k: v for k, v in entries.items() if k != "manifest.json"},
    "a manifest that is deep": lambda entries: entries | {"manifest.json": b"[" * 100_000},
    "a manifest of many digits": lambda entries: entries | {"manifest.json": b"9" * 10_000},
    "an array less": lambda entries: {k: v for k, v in entries.items() if k != "arrays/1.npy"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_unreadable(attack, good, folder):
    entries = ATTACKS[attack](good["TamisClassifier"])
    sealed = "manifest" not in attack and "less" not in attack
    (folder / "attack").write_bytes(hostile.packed(entries, sealed=sealed))
    with pytest.raises(io.Unreadable):
        io.load(folder / "attack")
    assert not Trap.sprung


def test_entries_of_one_name_are_unreadable(good, folder):
    entries = good["TamisClassifier"]
    with warnings.catch_warnings(), zipfile.ZipFile(folder / "twice", "w") as file:
        warnings.simplefilter("ignore", UserWarning)
        for name, data in [*entries.items(), ("content.json", b"[]")]:
            file.writestr(name, data)
    with pytest.raises(io.Unreadable, match="truncated or damaged"):
        io.load(folder / "twice")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_unreadable(method, good, folder):
    (folder / "packed").write_bytes(hostile.packed(good["TamisClassifier"], method=method))
    with pytest.raises(io.Unreadable):
        io.load(folder / "packed")


def test_a_locked_archive_is_unreadable(good, folder):
    data = bytearray(hostile.packed(good["TamisClassifier"]))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + place] |= 1
    (folder / "locked").write_bytes(data)
    with pytest.raises(io.Unreadable):
        io.load(folder / "locked")


def loaded_with(estimator, model, folder):
    """The estimator after it was saved and loaded with another model in it."""
    broken = type(estimator)(**estimator.get_params())
    vars(broken).update(estimator.to_stored()["learned"] | {"model_": model})
    io.save(broken, folder / "broken")
    return io.load(folder / "broken")


@pytest.mark.parametrize(
    "change",
    [
        {"intercept": np.zeros(3)},
        {"instances": np.zeros((4, 7))},
        {"instances": np.zeros(4)},
        {"coef": np.zeros((1, 2, 3))},
        {"coef": np.full((1, 4, 9), "x")},
    ],
    ids=lambda change: f"{next(iter(change))} {next(iter(change.values())).shape}",
)
def test_kernel_models_whose_parts_do_not_fit_are_unreadable(change, folder):
    estimator = fitted("EM2NOLCClassifier")
    model = estimator.model_
    with pytest.raises(io.Unreadable):
        loaded_with(estimator, replace(model, expansion=replace(model.expansion, **change)), folder)


@pytest.mark.parametrize(
    "change",
    [
        {"intercept": np.zeros(3)},
        {"intercept": np.zeros((1, 1))},
        {"instances": np.zeros(9)},
        {"columns": np.zeros(9)},
        {"curves": ()},
        {"curves": (Curve(np.zeros((2, 1)), np.zeros((2, 1))),) * 3},
        {"cells": (Cells(2, np.array([0.0, np.nan, 1.0])),) * 3},
        {"cells": (Cells(2, np.array([1.0, 0.0, 2.0])),) * 3},
        {"surfaces": (Surface((0, 7), (np.zeros(3, int), np.zeros(3, int)), np.zeros((2, 2, 1))),)},
        {"surfaces": (Surface((0, 1), (np.full(3, 5), np.full(3, -1)), np.zeros((2, 2, 1))),)},
        {"cases": Cases(np.zeros((2, 1)), (), np.zeros(1), np.zeros((2, 1)))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_additive_models_whose_parts_do_not_fit_are_unreadable(change, folder):
    estimator = fitted("TamisClassifier")
    with pytest.raises(io.Unreadable):
        loaded_with(estimator, replace(estimator.model_, **change), folder)


# ---------------------------------------------------------------------- memory


def bomb(entries, size):
    """A valid file with one more array, of zeros."""
    more = sum(name.startswith("arrays/") for name in entries)
    return hostile.packed(entries | {f"arrays/{more}.npy": hostile.npy(np.zeros(size // 8))})


MEASURE = """
import resource, sys
from tamis import io

io.load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        io.load(path)
    except io.Unreadable:
        pass
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert more < 500, (path, more)
"""


def test_small_files_take_little_memory(good, folder):
    """Bombs that unpack, that say less than they unpack to, of many entries, and JSON that becomes many objects."""
    entries = good["TamisClassifier"]
    (folder / "good").write_bytes(hostile.packed(entries))
    (folder / "bomb0").write_bytes(bomb(entries, 5 << 24))
    liar = bytearray(bomb(entries, 5 << 24))
    whole = (len(hostile.npy(np.zeros((5 << 24) // 8)))).to_bytes(4, "little")
    while (at := liar.find(whole)) >= 0:
        liar[at : at + 4] = (1000).to_bytes(4, "little")
    (folder / "bomb1").write_bytes(liar)
    (folder / "bomb2").write_bytes(hostile.packed(entries | {f"x{k}": b"" for k in range(5_000)}))
    for k, items in ((3, b'"ab",' * 1_000_000), (4, b"{}," * (codec.MAX_JSON_OBJECTS - 2))):
        (folder / f"bomb{k}").write_bytes(hostile.packed(entries | {"content.json": b"[" + items + b"1]"}))
    assert max((folder / f"bomb{k}").stat().st_size for k in range(5)) < 3 << 20
    paths = [folder / "good", *(folder / f"bomb{k}" for k in range(5))]
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(io.Unreadable, match="would unpack to 83"):
        io.load(folder / "bomb0")


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    codec.write(tmp_path / "f", "thing", 1)
    monkeypatch.setattr(codec, "MAX_JSON_OBJECTS", 10)
    with pytest.raises(ValueError, match="with 10 are read"):
        codec.write(tmp_path / "f", "thing", [[]] * 11)
    monkeypatch.setattr(codec, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 1000 are read"):
        codec.write(tmp_path / "f", "thing", np.zeros(1000))
    assert codec.read(tmp_path / "f", "thing") == 1


def test_large_files_are_not_packed_and_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(codec, "COMPRESSED_BYTES", 10_000)
    codec.write(tmp_path / "f", "thing", np.zeros(10_000))
    assert (tmp_path / "f").stat().st_size > 80_000
    assert codec.read(tmp_path / "f", "thing").shape == (10_000,)
