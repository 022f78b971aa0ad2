"""Codes that keep near neighbours near."""
