"""AMKL: multiple kernel learning with absent channels [Liu2015]."""
