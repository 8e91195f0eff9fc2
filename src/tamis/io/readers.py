"""Raw tables: batches of columns from text files, Parquet, ARFF and NPZ, compressed or not.

Every reader is a generator of pyarrow record batches. Text files give text; nothing is interpreted here.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from tamis.errors import BadOption
from tamis.progress import report, tracked
from tamis.table.sources.parquet import ParquetSource, arrow

ROWS = 1 << 15  # rows at a time of other formats than text
BLOCK = 1 << 22  # bytes of text at a time
BLANKS = re.compile(rb"(?m)^ +\r?$")  # lines of blanks count as empty
DELIMITERS, QUOTE = ",;\t|", '"'
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{'"][^\s{]*))\s*(?P<kind>\S.*)""", re.IGNORECASE
)
CELL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,%'"][^,%]*|))\s*(,|%.*$|$)""")


@dataclass
class Raw:
    """A table as it comes from a file."""

    names: list[str]  # of the columns, as they stand in the batches
    batches: Iterator[Any]  # the rows
    declared: dict[str, str] = field(default_factory=dict)  # {name: "number" or "text"} where the file says so
    aside: tuple[str, ...] = ()  # columns that are not part of the table (further arrays of an NPZ file)
    comma: bool = False  # whether numbers may have a decimal comma: where it does not part the cells


@dataclass(frozen=True)
class Opener:
    """Opens a file, as often as needed, as the bytes it holds once unpacked."""

    path: Path
    unpack: Callable[[IO[bytes]], Any]
    encoding: str

    @contextmanager
    def bytes(self) -> Iterator[tuple[Any, IO[bytes]]]:
        """The unpacked bytes, and the file on disk beneath them."""
        with self.path.open("rb") as raw:
            yield self.unpack(raw), raw

    @contextmanager
    def text(self) -> Iterator[io.TextIOWrapper]:
        encoding = "utf-8-sig" if self.encoding.lower() in ("utf-8", "utf8") else self.encoding
        with self.bytes() as (file, _):
            yield io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")

    def all(self) -> io.BytesIO:
        with self.bytes() as (file, _):
            return io.BytesIO(file.read())

    def failed(self, why: object) -> ValueError:
        return ValueError(f"{self.path.name!r} cannot be read: {why}")


def as_it_is(file: IO[bytes]) -> IO[bytes]:
    """A file that is not packed."""
    return file


def _unzipped(file: IO[bytes]) -> IO[bytes]:
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise OSError(f"it holds {len(names)} files, and an archive must hold one table")
    return archive.open(names[0])


def _zstd(file: IO[bytes]) -> IO[bytes]:
    pa = arrow()
    return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
    ".zip": _unzipped,
}


def open_raw(path: Path, encoding: str = "utf-8") -> Raw:
    """Open a table by the ending of its name."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    arrow()
    if path.is_dir():
        return _folder(path)
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise BadOption(f"encoding={encoding!r} is unknown: use utf-8, latin-1, utf-16, cp1252, ...") from None
    suffixes = [s.lower() for s in path.suffixes]
    packed = suffixes[-1] if suffixes and suffixes[-1] in OPENERS else None
    kind = suffixes[-2 if packed else -1] if len(suffixes) > bool(packed) else ".csv" if packed else ""
    if kind not in READERS:
        raise ValueError(
            f"{path.name!r} is of no known kind: use .csv, .tsv, .txt, .parquet, .arff or .npz, or one of these with "
            f"{', '.join(OPENERS)}"
        )
    raw = READERS[kind](Opener(path, OPENERS.get(packed or "", as_it_is), encoding))
    _check_names(raw.names, path)
    return raw


def _check_names(names: list[str], path: Path) -> None:
    twice = [name for k, name in enumerate(names) if name in names[:k]]
    if twice:
        first, second = [k + 1 for k, name in enumerate(names) if name == twice[0]][:2]
        raise ValueError(f"{path.name!r} has two columns named {twice[0]!r} (columns {first} and {second}): rename one")


# ---------------------------------------------------------------------- text


def _delimited(opener: Opener, delimiter: str | None = None) -> Raw:
    try:
        with opener.bytes() as (file, _):
            if "utf-8" in opener.encoding.lower() and b"\0" in file.read(1 << 12):
                raise opener.failed("it holds zero bytes, as UTF-16 text does; name its encoding")
        with opener.text() as file:
            first = file.readline()
            while first and not first.strip():
                first = file.readline()
        found = delimiter or max(DELIMITERS, key="".join(first.split('"')[::2]).count)  # outside quotes
        with opener.text() as file:
            rows = csv.reader(file, delimiter=found)
            header = next((row for row in rows if any(cell.strip() for cell in row)), [])
            skipped = rows.line_num
    except (*UNREADABLE, csv.Error) as error:
        raise opener.failed(error) from None
    if not header:
        raise opener.failed("it is empty; the first line must name the columns")
    names = [cell.strip() or f"column {k}" for k, cell in enumerate(header, 1)]
    if len(names) > 1 and all(is_number(name) for name in names):
        raise opener.failed("line 1 has numbers only; the first line must name the columns")
    return Raw(names, _text_batches(opener, names, found, skipped), comma=found != ",")


def is_number(text: str) -> bool:
    """Whether a text is a number for Python."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class Watched(io.RawIOBase):
    """A stream that counts quotation marks, so that one left open is noticed; lines of blanks become empty."""

    def __init__(self, file: IO[bytes]):
        self.file, self.quotes = file, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = BLANKS.sub(b"", self.file.read(size))
        self.quotes += data.count(QUOTE.encode())
        return data


def _text_batches(opener: Opener, names: list[str], delimiter: str, skipped: int) -> Iterator[Any]:
    pa = arrow()
    with opener.bytes() as (file, disk):
        size = opener.path.stat().st_size
        watched = Watched(file)
        try:
            reader = pa.csv.open_csv(
                pa.PythonFile(watched, "r"),
                read_options=pa.csv.ReadOptions(
                    column_names=names, skip_rows=skipped, use_threads=False, block_size=BLOCK, encoding=opener.encoding
                ),
                parse_options=pa.csv.ParseOptions(delimiter=delimiter, quote_char=QUOTE, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
                ),
            )
            with reader:
                for batch in reader:
                    report("reading", disk.tell(), size)
                    yield batch
        except pa.ArrowInvalid as error:
            raise opener.failed(_arrow_words(str(error), opener, delimiter)) from None
        except (*UNREADABLE, UnicodeDecodeError) as error:
            raise opener.failed(error) from None
        opened = _open_quote(opener, delimiter) if watched.quotes % 2 else 0
        if opened:
            raise opener.failed(f"line {opened} opens a quotation mark that is never closed")


def _arrow_words(message: str, opener: Opener, delimiter: str) -> str:
    """Arrow's message about a text, in our words, with the line in front."""
    row = re.search(r"Row #(\d+)", message)
    where = f"line {_line_of(opener, int(row[1]), delimiter)}" if row else "some line"
    ragged = re.search(r"Expected (\d+) columns, got (\d+)", message)
    if ragged:
        return f"{where} has {ragged[2]} cells, and the header names {ragged[1]} columns"
    if "UTF8" in message:
        return f"{where} is not {opener.encoding} text; save it as UTF-8 or name its encoding"
    return message


def _line_of(opener: Opener, row: int, delimiter: str) -> int:
    """The line of the file on which a row ends; cells may hold line breaks."""
    with opener.text() as file:
        rows = csv.reader(file, delimiter=delimiter)
        full = (cells for cells in rows if len(cells) > 1 or "".join(cells).strip())
        for k, _ in enumerate(full, 1):
            if k == row:
                return rows.line_num
    return row


def _open_quote(opener: Opener, delimiter: str) -> int:
    """The line on which a quoted cell begins that never ends; zero if there is none."""
    opened, before = 0, "\n"
    with opener.text() as file:
        for number, line in enumerate(file, 1):
            for letter in line:
                if letter == QUOTE and opened:
                    opened = 0
                elif letter == QUOTE and before in ("\n", "\r", delimiter, QUOTE):
                    opened = number  # a cell begins, or a doubled mark goes on
                before = letter
    return opened


# ---------------------------------------------------------------------- binary


def _parquet(opener: Opener) -> Raw:
    pa = arrow()
    try:
        source = str(opener.path) if opener.unpack is as_it_is else pa.BufferReader(opener.all().read())
        file = pa.parquet.ParquetFile(source)
    except (pa.ArrowInvalid, *UNREADABLE) as error:
        raise opener.failed(f"it is not a Parquet file, or it is damaged ({error})") from None
    declared = {f.name: "text" for f in file.schema_arrow if pa.types.is_dictionary(f.type)}
    steps = -(-file.metadata.num_rows // ROWS)
    batches = tracked(file.iter_batches(batch_size=ROWS), "reading", steps)
    return Raw(list(file.schema_arrow.names), batches, declared)


def _folder(path: Path) -> Raw:
    """The Parquet files of a folder, one after another."""
    source = ParquetSource(path, None)
    declared = {f.name: "text" for f in source.dataset.schema if arrow().types.is_dictionary(f.type)}
    batches = (batch for _, table in source.tables() for batch in table.to_batches())
    return Raw(source.names, batches, declared)


def _npz(opener: Opener) -> Raw:
    try:
        with np.load(opener.all(), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, *UNREADABLE):
        raise opener.failed("it is not an NPZ file of plain arrays, or it is damaged") from None
    columns: dict[str, np.ndarray] = {}
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2:
            raise opener.failed(f"its X has {X.ndim} dimensions; a table has two")
        given = arrays.get("feature_names", np.array([f"x{j}" for j in range(X.shape[1])]))
        if given.shape != (X.shape[1],):
            raise opener.failed(f"its feature_names have the shape {given.shape}, and X has {X.shape[1]} columns")
        names = [str(v) for v in given]
        columns = {name: X[:, j] for j, name in enumerate(names)}
        _check_names(names, opener.path)
    n = len(next(iter(columns.values()))) if columns else max((a.size for a in arrays.values()), default=0)
    aside = {k: v for k, v in arrays.items() if v.shape == (n,) and k not in ("X", "feature_names", "class_names")}
    if "class_names" in arrays and "y" in aside and aside["y"].dtype.kind in "iu":
        if aside["y"].min() < 0 or aside["y"].max() >= len(arrays["class_names"]):
            raise opener.failed(f"its y points beyond its {len(arrays['class_names'])} class_names")
        aside["y"] = arrays["class_names"][aside["y"]]
    if not columns and not aside:
        raise opener.failed("it holds neither a table X nor columns of equal length")
    everything = {**columns, **aside}
    hidden = tuple(name for name in aside if name != "y") if columns else ()
    return Raw(list(everything), _slices(everything, n), aside=hidden)


def _slices(columns: dict[str, np.ndarray], n: int) -> Iterator[Any]:
    pa = arrow()
    for start in range(0, n, ROWS):
        yield pa.RecordBatch.from_pydict({k: pa.array(v[start : start + ROWS]) for k, v in columns.items()})


# ---------------------------------------------------------------------- ARFF


def _arff(opener: Opener) -> Raw:
    """An ARFF file: names and kinds from its header, rows as text; scipy and pyarrow read none with texts."""
    names: list[str] = []
    declared: dict[str, str] = {}
    skipped = 0
    try:
        with opener.text() as file:
            for k, line in enumerate(file, 1):
                words = line.strip()
                if words.lower().startswith("@attribute"):
                    name, kind = _attribute(words, k, opener)
                    names.append(name)
                    declared[name] = kind
                elif words.lower().startswith("@data"):
                    skipped = k
                    break
    except UNREADABLE as error:
        raise opener.failed(error) from None
    if not skipped or not names:
        raise opener.failed("it has no @attribute or no @data line")
    return Raw(names, _arff_batches(names, _arff_rows(opener, names, skipped)), declared)


def _attribute(line: str, number: int, opener: Opener) -> tuple[str, str]:
    """Name and kind of an attribute line of ARFF: a number, text or a date."""
    found = ATTRIBUTE.fullmatch(line)
    if not found:
        raise opener.failed(f"line {number} is not an attribute: {line[:60]!r}")
    name = next(part for part in found.groups()[:3] if part is not None)
    kind = found["kind"].lower()
    if kind.startswith("date"):
        return _unescaped(name), "date"
    return _unescaped(name), "number" if re.match(r"numeric|real|integer", kind) else "text"


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _arff_rows(opener: Opener, names: list[str], skipped: int) -> Iterator[list[str]]:
    """The cells of the data lines."""
    with opener.text() as file:
        for number, line in enumerate(file, 1):
            if number <= skipped or not line.strip() or line.lstrip().startswith("%"):
                continue
            if line.lstrip().startswith("{"):
                raise opener.failed(f"line {number} is in the sparse form of ARFF, which is not supported")
            cells = _arff_cells(line.rstrip("\r\n"))
            if cells is None:
                raise opener.failed(f"line {number} opens a quotation mark that is never closed")
            if len(cells) != len(names):
                raise opener.failed(f"line {number} has {len(cells)} cells, and there are {len(names)} attributes")
            yield cells


def _arff_batches(names: list[str], rows: Iterator[list[str]]) -> Iterator[Any]:
    pa = arrow()
    while some := list(islice(rows, ROWS)):
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*some, strict=True)], names)


def _arff_cells(line: str) -> list[str] | None:
    """Cells in either kind of quotation marks or in none, before a comment; None if a mark is left open."""
    out, place = [], 0
    while True:
        found = CELL.match(line, place)
        if found is None:
            return None
        single, double, bare, end = found.groups()
        out.append(bare.strip() if bare is not None else _unescaped(single if single is not None else double))
        place = found.end()
        if end != ",":
            return out


READERS: dict[str, Callable[[Opener], Raw]] = {
    ".csv": _delimited,
    ".txt": _delimited,
    ".tsv": lambda opener: _delimited(opener, "\t"),
    ".tab": lambda opener: _delimited(opener, "\t"),
    ".parquet": _parquet,
    ".arff": _arff,
    ".npz": _npz,
}
