"""Kernels, banks of kernels on columns, recipes that make banks, and stacks of kernel values."""
