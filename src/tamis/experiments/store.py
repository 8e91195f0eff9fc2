"""Rows in a SQLite file: written as they finish, never twice, by several runs at once if need be.

A run claims a cell before it starts it, so that two runs on one file share the work. A claim counts as long as its
process lives, or until someone takes it over, and a row that is there already is never written over. All runs must be
on one machine: workers elsewhere send their rows to the run that they work for.
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

from tamis.errors import BadOption
from tamis.experiments.cells import FAILED, KEY, MEASURES, Cell, Row

VERSION = 1
PATIENCE = 60.0  # seconds that a writer waits for another
TEXTS = ("status", "error", "versions", "machine", "finished", "chosen", "extra")


class Store:
    """The rows of experiments in one file.

    Parameters
    ----------
    path : made if it is not there; its folder must be
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self.path.parent)!r} for {self.path.name!r}")
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"
        try:
            with self._open() as db:
                self._prepare(db)
        except sqlite3.DatabaseError as error:
            raise BadOption(f"{str(self.path)!r} is no store of experiments: {error}") from None

    def _open(self) -> closing[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        db.row_factory = sqlite3.Row
        return closing(db)

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode=WAL")
        if self._version(db) == VERSION:
            return
        db.execute("BEGIN IMMEDIATE")  # others find all of it or nothing; closing undoes what is open
        if self._version(db) == VERSION:
            return
        if db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise BadOption(f"{str(self.path)!r} is a database of something else: name another file")
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
            raise BadOption(f"{str(self.path)!r} is of version {found}, and this tamis writes {VERSION}: name another")
        return found

    # ------------------------------------------------------------------ rows

    def add(self, row: Row) -> bool:
        """Write a row; False where there was one already, which stays."""
        flat = row.flat()
        names, marks = ", ".join(flat), ", ".join("?" * len(flat))
        with self._open() as db:
            done = db.execute(f"INSERT OR IGNORE INTO rows ({names}) VALUES ({marks})", list(flat.values())).rowcount
            db.execute(f"DELETE FROM claims WHERE {_where()}", astuple(row.cell))
        return done == 1

    def rows(self, **where: Any) -> list[Row]:
        """All rows with these columns."""
        clause = " AND ".join(f"{name} = ?" for name in where) or "1"
        with self._open() as db:
            found = db.execute(f"SELECT * FROM rows WHERE {clause} ORDER BY rowid", list(where.values())).fetchall()
        return [Row.of(dict(one)) for one in found]

    def done(self, *, failed: bool = True) -> set[Cell]:
        """Cells that have a row; without those that failed if they do not count."""
        with self._open() as db:
            found = db.execute(f"SELECT {', '.join(KEY)}, status FROM rows").fetchall()
        return {Cell(**{k: one[k] for k in KEY}) for one in found if failed or one["status"] != FAILED}

    def forget(self, cells: Iterable[Cell]) -> None:
        """Remove rows, to run them again."""
        with self._open() as db:
            db.executemany(f"DELETE FROM rows WHERE {_where()}", [astuple(cell) for cell in cells])

    # ------------------------------------------------------------------ claims

    def claimed(self, bundles: Iterable[Sequence[Cell]]) -> Iterator[list[Cell]]:
        """Of each bundle the cells that nobody has run or runs, claimed for this run; empty bundles are left out."""
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
        held = db.execute(f"SELECT owner, since FROM claims WHERE {_where()}", key).fetchone()
        if held and held["owner"] != self.owner and _lives(held["owner"]):
            return False
        marks = ", ".join("?" * (len(KEY) + 2))
        db.execute(f"INSERT OR REPLACE INTO claims VALUES ({marks})", (*key, self.owner, time.time()))
        return True

    def mine(self) -> list[Cell]:
        """What this run has claimed and not finished."""
        with self._open() as db:
            found = db.execute(f"SELECT {', '.join(KEY)} FROM claims WHERE owner = ?", [self.owner]).fetchall()
        return [Cell(**dict(one)) for one in found]

    def held_elsewhere(self) -> dict[str, int]:
        """How many cells other runs that seem to live have claimed."""
        with self._open() as db:
            found = db.execute("SELECT owner, count(*) FROM claims WHERE owner != ? GROUP BY owner", [self.owner])
            return {owner: count for owner, count in found.fetchall() if _lives(owner)}

    def release(self, *, everything: bool = False) -> None:
        """Give up what this run has claimed and not finished; or what any run has."""
        with self._open() as db:
            db.execute("DELETE FROM claims WHERE owner = ? OR ?", [self.owner, everything])


def _where() -> str:
    return " AND ".join(f"{name} = ?" for name in KEY)


def _lives(owner: str) -> bool:
    """Whether the process behind a claim may still be at work; one on a machine of another name may."""
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
    """When a process began, to tell it from a later one of the same number; empty where that is not known."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
