"""What an index holds, in memory and in files."""
