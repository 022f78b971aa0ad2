"""Helpers for all of skhash, independent of hashing."""
