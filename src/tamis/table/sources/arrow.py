"""Import pyarrow, which is optional."""

from __future__ import annotations

from typing import Any


def arrow() -> Any:
    """Return the pyarrow package; raise an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError:
        raise ImportError("reading tables needs pyarrow: pip install 'tamis[io]'") from None
    return pyarrow
