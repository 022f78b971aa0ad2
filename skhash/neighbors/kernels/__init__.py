"""Kernels of exact search, compiled by numba: one thread, no lock held."""
