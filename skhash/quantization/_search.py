"""How widely to search for codes: as little as finds nearly the best."""

from skhash.quantization._codebook import find_codes, squared_errors

# Widths of the beam to choose from; by how much the error of the last one may be
# missed; rows that try them.
WIDTHS, SLACK, N_ROWS = (1, 2, 4, 8, 12, 16, 24, 32), 1.0025, 500


def choose_width(X, codebook, offset, n_jobs=None) -> int:
    """Return the width of the beam for a codebook.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows that the codebook was not fitted to.
    codebook : ndarray of shape (n_blocks, n_values, n_features), float32
    offset : ndarray of shape (n_features,)
    n_jobs : int or None
    """
    X = X[:N_ROWS]

    def error(width):
        values = find_codes(X, codebook, offset, width, n_jobs)
        return squared_errors(X, values, codebook, offset).sum()

    most = SLACK * error(WIDTHS[-1])
    return next(width for width in WIDTHS if error(width) <= most)
