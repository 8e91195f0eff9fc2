"""From encoded rows to a model of what is kept; held-out decisions, their scores and calibration."""
