"""What people see of a model: plots, report, and the studies behind them."""
