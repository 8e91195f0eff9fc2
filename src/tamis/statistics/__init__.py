"""The one-pass engine: sums over rows in place of the rows."""
