"""Fitted estimators as ONNX graphs: cells to encoded features, features to kernel values, values to decisions."""
