"""The content of an index, in memory and in files."""
