"""Rows of torch tensors that are dense or sparse CSR."""

import warnings

import torch


def is_sparse(X) -> bool:
    """Return whether a tensor is sparse CSR."""
    return X.layout == torch.sparse_csr


def csr_tensor(row_starts, columns, values, shape):
    """Return a sparse CSR tensor, without torch's warning about its beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(row_starts, columns, values, size=shape)


def with_values(X, values):
    """Return a sparse CSR tensor with the entries of `X` replaced."""
    return csr_tensor(X.crow_indices(), X.col_indices(), values, X.shape)


def entry_rows(X):
    """Return the row of each entry of a sparse CSR tensor."""
    rows = torch.arange(X.shape[0], device=X.device)
    return rows.repeat_interleave(X.crow_indices().diff())


def take_rows(X, rows: slice):
    """Return consecutive rows of a tensor that is dense or sparse CSR."""
    if not is_sparse(X):
        return X[rows]
    start, stop, _ = rows.indices(X.shape[0])
    bounds = X.crow_indices()[start : stop + 1]
    entries = slice(int(bounds[0]), int(bounds[-1]))
    return csr_tensor(
        bounds - bounds[0],
        X.col_indices()[entries],
        X.values()[entries],
        (stop - start, X.shape[1]),
    )


def scale_rows(X, kind: str):
    """Return rows scaled as the input of a network.

    Parameters
    ----------
    X : Tensor of shape (n_rows, n_features), dense or sparse CSR
    kind : {"values", "unit", "frequency", "presence"}
        The values, each divided by the Euclidean norm or by the sum of its row, or 1
        where they are above 0.
    """
    if kind == "values":
        return X
    if is_sparse(X):
        rows, zeros = entry_rows(X), X.values().new_zeros(X.shape[0])
        scaled = _scaled(
            X.values(), kind, lambda v, how: zeros.scatter_reduce(0, rows, v, how)[rows]
        )
        return with_values(X, scaled)
    return _scaled(X, kind, lambda v, how: getattr(v, how)(dim=1, keepdim=True))


def _scaled(values, kind, of_rows):
    if kind == "presence":
        return (values > 0).to(values.dtype)
    least = torch.finfo(values.dtype).tiny
    if kind == "frequency":
        return values / of_rows(values, "sum").clamp(min=least)
    # Squares of short or long rows would vanish or overflow.
    values = values / of_rows(values.abs(), "amax").clamp(min=least)
    return values / of_rows(values.square(), "sum").sqrt().clamp(min=least)
