"""ARFF: attributes, and rows with cells in either kind of quotation marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tamis.io.opening import ROWS, UNREADABLE, Opener, Raw
from tamis.table.sources.arrow import arrow

ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s{'"][^\s{]*))\s*(?P<kind>\S.*)""", re.IGNORECASE
)
CELL = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,%'"][^,%]*|))\s*(,|%.*$|$)""")


def read_arff(opener: Opener) -> Raw:
    """Open an ARFF file: names and kinds from its header, rows as text."""
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
    return Raw(names, _arff_batches(opener, names, skipped), declared)


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


def _arff_batches(opener: Opener, names: list[str], skipped: int) -> Iterator[Any]:
    """The data lines of ARFF: cells in either kind of quotation marks or in none, comments after %."""
    pa = arrow()
    rows: list[list[str]] = []
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
            rows.append(cells)
            if len(rows) == ROWS:
                yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names)
                rows = []
    if rows:
        yield pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names)


def _arff_cells(line: str) -> list[str] | None:
    """Cells of one line; None if a quotation mark is left open."""
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
