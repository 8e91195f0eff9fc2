"""Files: whole or not at all, checked, no pickle."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest

from tamis import codec
from tamis.codec import digest, read, stored, write


@stored
@dataclass(frozen=True)
class Point:
    x: float
    tags: tuple


@stored
class Mood(Enum):
    GOOD = "fine"


VALUES = [
    None,
    True,
    3,
    2.5,
    float("inf"),
    "text <&> é \ud800",
    [1, "a", None],
    (1, (2,)),
    {"a": 1, "b": [1]},
    {1: "x", (2, 3): "y"},
    {"$": "dollar"},
    Point(1.0, ("a",)),
    Mood.GOOD,
    {"nested": [Point(float("-inf"), ({"k": Mood.GOOD},))]},
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_come_back(value, tmp_path):
    write(tmp_path / "f", "thing", value)
    again = read(tmp_path / "f", "thing")
    assert again == value and type(again) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6).reshape(2, 3).T,
        np.array(["é", "b"]),
        np.array([], dtype=float),
        np.array(3.0),
        np.array([True, False]),
        np.array([1.0, np.nan, np.inf], dtype=np.float32),
        np.array([["a", 1], [None, 2.5]], dtype=object),
    ],
    ids=lambda a: str(a.dtype),
)
def test_arrays_come_back(array, tmp_path):
    write(tmp_path / "f", "thing", {"a": array})
    again = read(tmp_path / "f", "thing")["a"]
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype and again.shape == array.shape


def test_nan_comes_back(tmp_path):
    write(tmp_path / "f", "thing", [float("nan")])
    assert np.isnan(read(tmp_path / "f", "thing")[0])


def test_equal_content_gives_equal_files(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, "thing", {"x": np.arange(3)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert digest({"x": np.arange(3)}) != digest({"x": np.arange(4)})


def test_what_was_not_marked_is_refused(tmp_path):
    @dataclass
    class Stranger:
        x: int

    with pytest.raises(ValueError, match="Stranger, which a file cannot hold"):
        write(tmp_path / "f", "thing", Stranger(1))
    with pytest.raises(ValueError, match="cannot be written"):
        write(tmp_path / "f", "thing", np.array(["2020-01-01"], dtype="datetime64[D]"))
    assert not list(tmp_path.iterdir())


def test_two_classes_of_one_name_are_refused():
    with pytest.raises(TypeError, match="rename one"):

        @stored
        @dataclass
        class Point:
            x: int


def changed(path, entry, change):
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    entries[entry] = change(entries[entry])
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)


class TestDamage:
    @pytest.fixture
    def path(self, tmp_path):
        write(tmp_path / "f", "thing", {"x": np.arange(1000.0), "y": "word"})
        return tmp_path / "f"

    def refused(self, path, match):
        with pytest.raises(ValueError, match=match):
            read(path, "thing")

    @pytest.mark.parametrize("keep", [0, 10, 200, -5])
    def test_truncated(self, path, keep):
        path.write_bytes(path.read_bytes()[:keep])
        self.refused(path, "not a tamis thing file, or it is truncated or damaged")

    def test_any_flipped_byte_is_noticed(self, path):
        whole = path.read_bytes()
        for place in range(0, len(whole), 97):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
            try:
                again = read(path, "thing")
            except ValueError:
                continue
            assert again["y"] == "word" and again["x"][-1] == 999  # a byte that nothing reads

    def test_content_that_does_not_match(self, path):
        changed(path, "content.json", lambda data: data.replace(b"word", b"sword"))
        self.refused(path, "does not match its checksum")

    @pytest.mark.parametrize("version", [0, 99])
    def test_unknown_version(self, path, version):
        changed(path, "manifest.json", lambda data: json.dumps({**json.loads(data), "version": version}).encode())
        self.refused(path, rf"has the format {version}, and this tamis reads the format 1")

    def test_other_kind(self, path):
        with pytest.raises(ValueError, match="is a tamis thing file, not a model file"):
            read(path, "model")

    def test_unknown_class(self, path, monkeypatch):
        write(path, "thing", Point(1.0, ()))
        monkeypatch.delitem(codec.STORED, "Point")
        self.refused(path, "this version cannot read it .KeyError: .Point")

    @pytest.mark.parametrize(
        "change",
        [
            {"arrays": None},
            {"arrays": "1"},
            {"sha256": None},
            {"version": True},
            {"version": "1"},
            {"kind": None},
        ],
        ids=str,
    )
    def test_crafted_manifests(self, path, change):
        changed(path, "manifest.json", lambda data: json.dumps({**json.loads(data), **change}).encode())
        self.refused(path, "is not a tamis thing file")

    def test_too_large(self, path, monkeypatch):
        monkeypatch.setattr(codec, "MAX_BYTES", 1000)
        self.refused(path, "at most 1000 are read")

    def test_an_array_that_promises_more_than_it_holds(self, path):
        bomb = codec._npy(np.arange(4.0)).replace(b"(4,)", b"(9,)")
        with pytest.raises(ValueError, match="does not fit its entry"):
            codec._array(bomb)

    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            write(tmp_path / "none" / "f", "thing", 1)

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none", "thing")


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write(tmp_path / "f", "thing", 1)
    with pytest.raises(KeyboardInterrupt), codec.replacing(tmp_path / "f") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert read(tmp_path / "f", "thing") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_only_files_are_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name, match in (
        ("folder", "folder' is a folder"),
        ("pipe", "pipe' is a device or a pipe"),
        ("link", "pipe' is"),
    ):
        with pytest.raises(OSError, match=match):
            write(tmp_path / name, "thing", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "pipe"]
    assert (tmp_path / "pipe").is_fifo() and not list((tmp_path / "folder").iterdir())


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/f")
    for value in (1, 2):  # of a file that is not there yet, then of one that is
        write(tmp_path / "link", "thing", value)
        assert (tmp_path / "link").is_symlink() and read(tmp_path / "there" / "f", "thing") == value
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["f"]


def test_a_new_file_has_the_permissions_of_the_old_one(tmp_path):
    write(tmp_path / "f", "thing", 1)
    for mode in (0o600, 0o664, 0o444):
        (tmp_path / "f").chmod(mode)
        write(tmp_path / "f", "thing", mode)
        assert (tmp_path / "f").stat().st_mode & 0o777 == mode and read(tmp_path / "f", "thing") == mode
