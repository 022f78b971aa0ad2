"""Stochastic autoencoders with a binary code."""
