"""Search among codes and among what they decode to."""
