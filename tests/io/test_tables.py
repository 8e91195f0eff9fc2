"""Reading tables of every kind, and what is said of those that cannot be read."""

from __future__ import annotations

import bz2
import datetime
import gzip
import lzma
import zipfile

import numpy as np
import pytest

from tamis.io import blocks, load_dataset, read
from tamis.io.writing import writing

pa = pytest.importorskip("pyarrow", reason="reading tables needs pyarrow")

CSV = b"a,b,c\n1,x,\n2.5, y ,3\nNA,?,4\n"


def expect(columns):
    assert list(columns) == ["a", "b", "c"]
    np.testing.assert_array_equal(columns["a"], [1.0, 2.5, np.nan])
    assert columns["b"].tolist() == ["x", "y", None]
    np.testing.assert_array_equal(columns["c"], [np.nan, 3.0, 4.0])


class TestText:
    @pytest.mark.parametrize(
        ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
    )
    def test_csv(self, ending, pack, tmp_path):
        path = tmp_path / f"t.csv{ending}"
        path.write_bytes(pack(CSV))
        expect(read(path))

    def test_zip_and_zstd(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as file:
            file.writestr("inside.csv", CSV)
        expect(read(tmp_path / "t.csv.zip"))
        with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as file:
            file.write(CSV)
        expect(read(tmp_path / "t.csv.zst"))

    @pytest.mark.parametrize(
        "data",
        [
            CSV.replace(b",", b";"),
            CSV.replace(b",", b"|"),
            b"\xef\xbb\xbf" + CSV,
            CSV.replace(b"\n", b"\r\n"),
            CSV.replace(b"2.5", b'"2.5"'),
            CSV.replace(b"NA,?,4", b"\nNA,?,4\n \n"),
        ],
    )
    def test_dialects(self, data, tmp_path):
        (tmp_path / "t.csv").write_bytes(data)
        expect(read(tmp_path / "t.csv"))

    def test_tsv(self, tmp_path):
        (tmp_path / "t.tsv").write_bytes(CSV.replace(b",", b"\t"))
        expect(read(tmp_path / "t.tsv"))

    def test_decimal_commas(self, tmp_path):
        (tmp_path / "t.csv").write_text("a;b\n1,5;x\n-2,25;y\n")
        assert read(tmp_path / "t.csv")["a"].tolist() == [1.5, -2.25]

    def test_thousands_are_not_decimals(self, tmp_path):
        (tmp_path / "t.csv").write_text('a,b\n"1,234",x\n999,y\n')
        assert read(tmp_path / "t.csv")["a"].tolist() == ["1,234", "999"]

    def test_leading_zeros_are_codes(self, tmp_path):
        (tmp_path / "t.csv").write_text("zip,v\n01000,0.5\n1000,-0.25\n")
        columns = read(tmp_path / "t.csv")
        assert columns["zip"].tolist() == ["01000", "1000"] and columns["v"].tolist() == [0.5, -0.25]

    def test_marks_within_a_cell_open_nothing(self, tmp_path):
        (tmp_path / "t.csv").write_text('a,b\n1,5" pipe\n2,"say ""hi"""\n')
        assert read(tmp_path / "t.csv")["b"].tolist() == ['5" pipe', 'say "hi"']

    def test_empty_cells_are_not_an_empty_line(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n,\n\n3,4\n")
        np.testing.assert_array_equal(read(tmp_path / "t.csv")["a"], [1.0, np.nan, 3.0])

    def test_text_on_request_and_marks_of_missing_cells(self, tmp_path):
        (tmp_path / "t.csv").write_text("code,v\n007,1\n12,-99\n")
        columns = read(tmp_path / "t.csv", text=["code"], missing=["-99"])
        assert columns["code"].tolist() == ["007", "12"]
        np.testing.assert_array_equal(columns["v"], [1.0, np.nan])

    def test_encoding(self, tmp_path):
        (tmp_path / "t.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
        assert read(tmp_path / "t.csv", encoding="latin-1")["b"].tolist() == ["é"]

    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (b"a,b\n1,2\n\n3,4,5\n", "line 4 has 3 cells, and the header names 2 columns"),
            (b"a,b\n1,2\n1,\xe9\n", "line 3 is not utf-8 text"),
            (b'a,b\n1,2\n1,"x\n3,4\n', "line 3 opens a quotation mark that is never closed"),
            (b'a,b\n1,"x\ny"\n3\n', "line 4 has 1 cells"),
            (b"a,b\n1,\xe9\n3\n", "line 3 has 1 cells|line 2 is not utf-8"),
            ("a,b\n1,2\n".encode("utf-16"), "as UTF-16 text does"),
            (b"", "it is empty"),
            (b"a,b\n", "no rows below its header"),
            (b"1,2\n3,4\n", "numbers only"),
            (b"a,b,a\n1,2,3\n", r"two columns named 'a' \(columns 1 and 3\)"),
        ],
    )
    def test_bad_files(self, data, match, tmp_path):
        (tmp_path / "t.csv").write_bytes(data)
        with pytest.raises(ValueError, match=match):
            read(tmp_path / "t.csv")

    @pytest.mark.parametrize("data", [CSV, gzip.compress(CSV * 1000)[:60]], ids=["not packed", "cut"])
    def test_damaged_archives(self, data, tmp_path):
        (tmp_path / "t.csv.gz").write_bytes(data)
        with pytest.raises(ValueError, match=r"'t.csv.gz' cannot be read"):
            read(tmp_path / "t.csv.gz")

    def test_a_cell_that_changes_its_kind_late_does_not_matter(self, tmp_path):
        n = 400_000
        (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * n + "x,3\n")
        columns = read(tmp_path / "t.csv")
        assert columns["a"][0] == "1" and columns["a"][-1] == "x"
        assert columns["b"].sum() == 2 * n + 3


def test_arff_in_either_quotation_marks(tmp_path):
    lines = ["@relation r", "@attribute 'it\\'s' numeric", '@attribute "my colour" {a,b}', "@attribute y{p,q}",
             "@attribute d date 'yyyy-MM-dd'", "@data", "1, 'dark, blue', p, '2020-01-02' % a comment",
             '2,"O\'Neil",q,?', "3,'it\\'s',p,'2020-01-03'"]  # fmt: skip
    (tmp_path / "t.arff").write_text("\n".join(lines))
    columns = read(tmp_path / "t.arff")
    assert columns["it's"].tolist() == [1.0, 2.0, 3.0]
    assert columns["my colour"].tolist() == ["dark, blue", "O'Neil", "it's"]
    assert columns["y"].tolist() == ["p", "q", "p"]
    assert columns["d"].dtype.kind == "M" and np.isnat(columns["d"]).tolist() == [False, True, False]
    (tmp_path / "t.arff").write_text("\n".join([*lines, "4,'open,p,?"]))
    with pytest.raises(ValueError, match="line 10 opens a quotation mark"):
        read(tmp_path / "t.arff")


ARFF = """% a comment
@relation 'x y'
@attribute 'my age' numeric
@attribute colour {red, 'dark blue'}
@attribute grade{0,1}
@data
% another
1,red,0
?,'dark blue',1
"""


class TestOtherKinds:
    def test_arff(self, tmp_path):
        (tmp_path / "t.arff").write_text(ARFF)
        columns = read(tmp_path / "t.arff")
        np.testing.assert_array_equal(columns["my age"], [1.0, np.nan])
        assert columns["colour"].tolist() == ["red", "dark blue"]
        assert columns["grade"].tolist() == ["0", "1"] and columns.categorical == ("colour", "grade")

    @pytest.mark.parametrize(
        ("old", "new", "match"),
        [
            ("1,red,0", "one,red,0", "row 1: 'one' in column 'my age' is not a number, and the file declares it one"),
            ("1,red,0", "1,red", "line 8 has 2 cells"),
            ("1,red,0", "{0 1}", "sparse"),
            ("@data", "", "no @data"),
            ("@attribute 'my age' numeric", "@attribute", "line 3 is not an attribute"),
        ],
    )
    def test_bad_arff(self, old, new, match, tmp_path):
        (tmp_path / "t.arff").write_text(ARFF.replace(old, new).replace("% another\n", "" if "{" in new else "% c\n"))
        with pytest.raises(ValueError, match=match):
            read(tmp_path / "t.arff")

    def test_parquet(self, tmp_path):
        import pyarrow.parquet as pq

        table = pa.table(
            {
                "n": [1, None, 3],
                "s": pa.array(["x", None, "y"]).dictionary_encode(),
                "t": ["1", "2", "NA"],
                "b": [True, None, False],
                "d": [datetime.date(2020, 1, 1)] * 3,
            }
        )
        pq.write_table(table, tmp_path / "t.parquet")
        columns = read(tmp_path / "t.parquet")
        np.testing.assert_array_equal(columns["n"], [1.0, np.nan, 3.0])
        np.testing.assert_array_equal(columns["t"], [1.0, 2.0, np.nan])
        assert columns["s"].tolist() == ["x", None, "y"] and columns["b"].tolist() == ["true", None, "false"]
        assert columns["d"].dtype.kind == "M" and columns.categorical == ("s",)
        pq.write_table(pa.table({"l": [[1], [2]]}), tmp_path / "l.parquet")
        with pytest.raises(ValueError, match="column 'l' holds values of the type list"):
            read(tmp_path / "l.parquet")

    def test_npz(self, tmp_path):
        X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
        more = {"feature_names": np.array(["u", "v"]), "class_names": np.array(["no", "yes"]), "who": np.arange(3)}
        np.savez(tmp_path / "t.npz", X=X, y=y, **more)
        columns = read(tmp_path / "t.npz")
        assert list(columns) == ["u", "v", "y"] and columns["y"].tolist() == ["no", "yes", "no"]
        assert read(tmp_path / "t.npz", text=["who"])["who"].tolist() == ["0", "1", "2"]

    @pytest.mark.parametrize("name", ["t.parquet", "t.npz", "t.zip"])
    def test_damaged(self, name, tmp_path):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(ValueError, match="cannot be read"):
            read(tmp_path / name)

    def test_unknown_kinds_and_places(self, tmp_path):
        (tmp_path / "t.xlsx").write_bytes(b"")
        with pytest.raises(ValueError, match=r"no known kind: use .csv"):
            read(tmp_path / "t.xlsx")
        with pytest.raises(ValueError, match="has no Parquet files"):
            read(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no file"):
            read(tmp_path / "nothing.csv")


class TestBlocks:
    def test_blocks_are_the_table(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.io.readers.BLOCK", 1 << 10)
        rng = np.random.default_rng(0)
        x = rng.normal(size=500).round(3)
        (tmp_path / "t.csv").write_text("x,s\n" + "".join(f"{v},c{k % 3}\n" for k, v in enumerate(x)))
        parts = list(blocks(tmp_path / "t.csv", {"x": "number", "s": "text"}))
        assert len(parts) > 3
        np.testing.assert_array_equal(np.concatenate([c["x"] for _, c in parts]), x)
        assert np.concatenate([c["s"] for _, c in parts])[4] == "c1"

    def test_a_cell_that_is_not_a_number_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tamis.io.readers.BLOCK", 1 << 8)
        (tmp_path / "t.csv").write_text("x\n" + "1\n" * 300 + "two\n")
        with pytest.raises(ValueError, match="row 301: 'two' in column 'x' is not a number"):
            list(blocks(tmp_path / "t.csv", {"x": "number"}))


@pytest.mark.parametrize("kind", [".csv", ".tsv", ".parquet"])
def test_what_is_written_is_read(kind, tmp_path):
    batch = pa.RecordBatch.from_pydict({"a": [1.5, None], "b": ['x, "y"', "z"]})
    path = tmp_path / f"t{kind}"
    with writing(path) as write:
        write(batch)
        write(batch)
    columns = read(path)
    np.testing.assert_array_equal(columns["a"], [1.5, np.nan, 1.5, np.nan])
    assert columns["b"].tolist() == ['x, "y"', "z"] * 2


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), writing(tmp_path / "t.csv") as write:
        write(pa.RecordBatch.from_pydict({"a": [1]}))
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_embedded_datasets():
    columns, target = load_dataset("breast_cancer")
    assert target == "diagnosis" and len(columns) == 31
    assert (columns["diagnosis"] == "malignant").sum() == 212
    with pytest.raises(ValueError, match="no dataset 'nothing'"):
        load_dataset("nothing")


def test_datasets_in_the_folder(data_folder):
    columns, target = load_dataset("pima")
    assert target == "y" and len(columns["y"]) == 768
