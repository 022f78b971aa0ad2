"""Codes learned from labels."""
