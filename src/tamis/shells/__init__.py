"""What estimators share: parameters, reading, folds, publishing, explaining, searching."""
