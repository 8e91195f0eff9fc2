"""TableReader: how the columns of X are read, in the fit and afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tamis.base.model import Model
from tamis.codec import stored
from tamis.table.checks import resolve_columns
from tamis.table.table import Table, columns_by_name, read_columns, read_table


@stored
@dataclass(frozen=True)
class TableReader:
    """Which columns are categories, and whether cells may be missing.

    Attributes
    ----------
    categorical : positions of the columns that are categories whatever they hold; None where their types decide
    allow_missing : whether missing cells are accepted
    """

    categorical: tuple[int, ...] | None
    allow_missing: bool

    @classmethod
    def of(cls, names: list[str], categorical_features: Any, missing: str | None) -> TableReader:
        """The reader of a table with these columns, for the parameters of an estimator."""
        categorical = resolve_columns(categorical_features, names)
        return cls(None if categorical is None else tuple(categorical), missing is not None)

    @property
    def _places(self) -> list[int] | None:
        return None if self.categorical is None else list(self.categorical)

    def read(self, X: Any, names: list[str]) -> Table:
        """The cells of an array, frame or dict of columns that has been checked."""
        columns = columns_by_name(X)
        if columns is not None:
            return read_columns(columns, names, self._places, self.allow_missing)
        return read_table(X, names, self._places, self.allow_missing)

    def read_kept(self, X: Mapping[str, Any], model: Model) -> Table:
        """The kept columns of a dict of columns, which may have others or none."""
        places = None
        if self.categorical is not None:
            place = {column: k for k, column in enumerate(model.columns.tolist())}
            places = [place[c] for c in self.categorical if c in place]
        return read_columns(X, model.encoder.names, places, self.allow_missing)
