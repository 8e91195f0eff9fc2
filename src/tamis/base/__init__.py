"""What every estimator is made of: reading, kernels, models, calibration, search, prediction."""
