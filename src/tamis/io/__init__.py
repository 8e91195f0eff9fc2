"""Files: reading and writing tables, saving and loading models, models for other runtimes, datasets by name."""

from tamis.codec import Unreadable, stored
from tamis.io.datasets import load_dataset
from tamis.io.export.onnx import to_onnx
from tamis.io.export.sql import to_sql
from tamis.io.models import load, save, trusted_types
from tamis.io.tables import blocks, read

__all__ = [
    "Unreadable",
    "blocks",
    "load",
    "load_dataset",
    "read",
    "save",
    "stored",
    "to_onnx",
    "to_sql",
    "trusted_types",
]
