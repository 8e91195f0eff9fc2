"""Rows in a SQLite file, written once each, by several runs at the same time if needed.

A run claims a cell before it starts it, so that two runs on one file share the work. A claim is valid while its process
lives, or until it is taken over. An existing row is never replaced. All runs must be on one machine; workers on other
machines send their rows to their run.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any

from experiments.cells import FAILED, KEY, MEASURES, Cell, Row
from tamis.errors import BadOption

VERSION = 2
TIMEOUT = 60.0  # seconds that a writer waits for another
PAUSE = 0.01  # seconds between two tries to open a locked file
TEXTS = ("status", "error", "versions", "machine", "finished", "chosen", "extra")


class Store:
    """The rows of experiments in one file.

    Parameters
    ----------
    path : the file, created if needed in an existing folder
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self.path.parent)!r} for {self.path.name!r}")
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"
        end = time.monotonic() + TIMEOUT
        while not self._prepared(end):
            time.sleep(PAUSE)

    def _prepared(self, end: float) -> bool:
        """Make the tables unless they are there; False while others, until `end`, keep the file locked."""
        try:
            with self._open() as db:
                self._prepare(db)
        except sqlite3.DatabaseError as error:
            # SQLite does not wait, whatever its timeout, where a switch to WAL would meet another one
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY and time.monotonic() < end:
                return False
            raise BadOption(f"{str(self.path)!r} is no store of experiments: {error}") from None
        return True

    def _open(self) -> closing[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=TIMEOUT, isolation_level=None)
        db.row_factory = sqlite3.Row
        return closing(db)

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode=WAL")
        if self._version(db) == VERSION:
            return
        db.execute("BEGIN IMMEDIATE")  # other runs see all tables or none; closing rolls back
        if self._version(db) == VERSION:
            return
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise BadOption(f"{str(self.path)!r} is a database without rows of experiments: name another file")
        key = ", ".join(f"{name} {'INTEGER' if name == 'split' else 'TEXT'} NOT NULL" for name in KEY)
        numbers = ", ".join(f"{name} REAL" for name in MEASURES)
        texts = ", ".join(f"{name} TEXT NOT NULL" for name in TEXTS)
        unique = f"PRIMARY KEY ({', '.join(KEY)})"
        db.execute(f"CREATE TABLE rows ({key}, {numbers}, seed INTEGER NOT NULL, {texts}, {unique})")
        db.execute(f"CREATE TABLE claims ({key}, owner TEXT NOT NULL, since REAL NOT NULL, {unique})")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute("COMMIT")

    def _version(self, db: sqlite3.Connection) -> int:
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found not in (0, VERSION):
            raise BadOption(f"{str(self.path)!r} has version {found}, not {VERSION}: name another file")
        return found

    # ------------------------------------------------------------------ rows

    def add(self, row: Row) -> bool:
        """Write a row; return False if the cell already has one, which is kept."""
        flat = row.flat()
        names, marks = ", ".join(flat), ", ".join("?" * len(flat))
        with self._open() as db:
            done = db.execute(f"INSERT OR IGNORE INTO rows ({names}) VALUES ({marks})", list(flat.values())).rowcount
            db.execute(f"DELETE FROM claims WHERE {_where()}", astuple(row.cell))
        return done == 1

    def rows(self, **where: Any) -> list[Row]:
        """Return the rows with these values of columns."""
        clause = " AND ".join(f"{name} = ?" for name in where) or "1"
        with self._open() as db:
            found = db.execute(f"SELECT * FROM rows WHERE {clause} ORDER BY rowid", list(where.values())).fetchall()
        return [Row.of(dict(one)) for one in found]

    def done(self, *, failed: bool = True) -> set[Cell]:
        """Return the cells that have a row, with or without failed ones."""
        with self._open() as db:
            found = db.execute(f"SELECT {', '.join(KEY)}, status FROM rows").fetchall()
        return {Cell(**{k: one[k] for k in KEY}) for one in found if failed or one["status"] != FAILED}

    def forget(self, cells: Iterable[Cell]) -> None:
        """Remove the rows of cells, so that they run again."""
        with self._open() as db:
            db.executemany(f"DELETE FROM rows WHERE {_where()}", [astuple(cell) for cell in cells])

    # ------------------------------------------------------------------ claims

    def claimed(self, bundles: Iterable[Sequence[Cell]]) -> Iterator[list[Cell]]:
        """Claim the cells of each bundle that have no row and no valid claim; yield the bundles that are not empty."""
        for bundle in bundles:
            mine = [cell for cell in bundle if self._claim(cell)]
            if mine:
                yield mine

    def _claim(self, cell: Cell) -> bool:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                return self._claim_within(db, cell)
            finally:
                db.execute("COMMIT")

    def _claim_within(self, db: sqlite3.Connection, cell: Cell) -> bool:
        key = astuple(cell)
        if db.execute(f"SELECT 1 FROM rows WHERE {_where()}", key).fetchone():
            return False
        claim = db.execute(f"SELECT owner, since FROM claims WHERE {_where()}", key).fetchone()
        if claim and claim["owner"] != self.owner and _lives(claim["owner"]):
            return False
        marks = ", ".join("?" * (len(KEY) + 2))
        db.execute(f"INSERT OR REPLACE INTO claims VALUES ({marks})", (*key, self.owner, time.time()))
        return True

    def mine(self) -> list[Cell]:
        """Return the cells that this run has claimed and not finished."""
        with self._open() as db:
            found = db.execute(f"SELECT {', '.join(KEY)} FROM claims WHERE owner = ?", [self.owner]).fetchall()
        return [Cell(**dict(one)) for one in found]

    def claimed_elsewhere(self) -> dict[str, int]:
        """Return {owner: number of claimed cells} of other runs that live."""
        with self._open() as db:
            found = db.execute("SELECT owner, count(*) FROM claims WHERE owner != ? GROUP BY owner", [self.owner])
            return {owner: count for owner, count in found.fetchall() if _lives(owner)}

    def release(self, *, everything: bool = False) -> None:
        """Remove the claims of this run, or with `everything` of all runs."""
        with self._open() as db:
            db.execute("DELETE FROM claims WHERE owner = ? OR ?", [self.owner, everything])


def _where() -> str:
    return " AND ".join(f"{name} = ?" for name in KEY)


def _lives(owner: str) -> bool:
    """Return whether the process of a claim may live; one on another machine may."""
    host, pid, started = owner.split(":")
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """Return when a process started, which identifies it if numbers are used again; empty if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
