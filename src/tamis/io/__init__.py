"""Files: reading and writing tables, saving and loading models, datasets by name."""

from tamis.codec import stored
from tamis.io.datasets import load_dataset
from tamis.io.models import load, save
from tamis.io.onnx.model import to_onnx
from tamis.io.tables import blocks, read

__all__ = ["blocks", "load", "load_dataset", "read", "save", "stored", "to_onnx"]
