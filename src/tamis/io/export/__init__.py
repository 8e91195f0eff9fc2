"""Models as ONNX graphs and SQL queries."""
