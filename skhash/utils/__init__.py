"""Helpers shared by all of skhash; they know nothing of hashing."""
