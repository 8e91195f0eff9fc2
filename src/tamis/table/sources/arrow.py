"""The home of pyarrow, which files and tables need."""

from __future__ import annotations

from typing import Any


def arrow() -> Any:
    """The pyarrow package, or a sentence that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'tamis[io]'") from None
    return pyarrow
