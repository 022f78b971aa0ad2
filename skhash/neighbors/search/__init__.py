"""Search among codes and among decoded codes."""
