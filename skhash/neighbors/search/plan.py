"""Which algorithm answers a question: a function of costs alone."""


def plan(costs, made, making, saved):
    """Decide what to make before a question is answered.

    What would answer more cheaply is made as soon as it would have saved what making it
    costs, had it been there from the beginning.

    Parameters
    ----------
    costs : dict of float
        By the name of the algorithm, what the question costs.
    made : list of str
        What is there. It is not empty.
    making : dict of float
        What making the others costs.
    saved : dict of float
        What the others could have saved until now.

    Returns
    -------
    due : str or None
        What to make: of several, what answers at the least cost.
    saved : dict of float
        What the others could have saved, this question included.
    """
    now = min(costs[name] for name in made)
    gains = {name: now - costs[name] for name in costs if name not in made}
    saved = {name: saved[name] + max(0.0, gain) for name, gain in gains.items()}
    due = [name for name in gains if gains[name] > 0 and saved[name] > making[name]]
    return min(due, key=costs.get, default=None), saved
