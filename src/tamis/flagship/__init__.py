"""TamisClassifier and TamisRegressor."""
