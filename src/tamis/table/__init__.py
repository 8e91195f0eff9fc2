"""What users bring: frames and arrays, encodings, rows with weights and groups, folds, keys."""
