"""How long campaigns of random cases are: short, or ``pytest --long``."""

is_long = False


def length(short, times=10):
    """Return how many cases a campaign has, `times` as many where it is a long one."""
    return short * times if is_long else short
