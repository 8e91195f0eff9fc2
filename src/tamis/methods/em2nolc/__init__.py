"""EM2NOLC: least squares with few instances and few features [Zhang2022]."""
