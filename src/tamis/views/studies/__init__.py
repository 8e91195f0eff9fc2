"""What is learned by fitting or reading estimators again: stability, effects of parameters, maps."""
