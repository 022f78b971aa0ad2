"""Stochastic Generative Hashing."""
