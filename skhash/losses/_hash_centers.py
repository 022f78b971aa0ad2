"""Codes that classes are to have, far from each other."""

from math import comb

import torch

# Random codes among which a centre is chosen.
CANDIDATES = 1024


def hash_centers(n_classes, n_bits, method, generator) -> torch.Tensor:
    """Return a code of -1 and +1 for each class.

    Parameters
    ----------
    n_classes, n_bits : int
    method : {"hadamard", "bernoulli", "distance"}
        "hadamard" takes rows of Hadamard matrices in random order and with random
        signs: up to `n_bits` centres differ pairwise in half of the bits, and up to
        ``2 n_bits`` in half of them or all. Other lengths than powers of two are put
        together from blocks that are, such as 48 = 32 + 16; there this holds for as
        many classes as it does for the smallest block, and beyond at least the largest
        block keeps its distances. Classes beyond twice the largest block get random
        signs, which may be near each other: take "distance" there.

        "bernoulli" draws random signs.

        "distance" starts from "hadamard" and replaces centres until any two differ in
        `gilbert_varshamov_distance` bits, or for four rounds a class: each time the
        one that is nearest to another, by the random code that is farthest from all
        others. (Wang et al., 2023, solve for real vectors instead and round them.)
    generator : torch.Generator
        On the CPU.

    Returns
    -------
    centers : Tensor of shape (n_classes, n_bits), float32

    Raises
    ------
    ValueError
        If `method` is none of these.

    References
    ----------
    L. Yuan et al., "Central similarity quantization for efficient image and video
    retrieval", CVPR 2020, algorithm 1.

    L. Wang, Y. Pan, C. Liu, H. Lai, J. Yin and Y. Liu, "Deep hashing with
    minimal-distance-separated hash centers", CVPR 2023.

    Examples
    --------
    >>> import torch
    >>> from skhash.losses import hash_centers
    >>> centers = hash_centers(3, 8, "hadamard", torch.Generator().manual_seed(0))
    >>> (8 - centers @ centers.T) / 2
    tensor([[0., 4., 4.],
            [4., 0., 4.],
            [4., 4., 0.]])
    """
    if method not in CENTERS:
        names = ", ".join(map(repr, CENTERS))
        raise ValueError(f"centers={method!r} is not one of {names}.")
    return CENTERS[method](n_classes, n_bits, generator)


def gilbert_varshamov_distance(n_classes, n_bits) -> int:
    """Return the distance that `n_classes` codes can nearly always keep.

    It is the smallest d for which the Hamming balls of radius d - 1 around all codes
    have together at least as many codes as there are: with one less, the bound of
    Gilbert and Varshamov says that such centres exist (Wang et al., 2023, eq. 4).

    Examples
    --------
    >>> from skhash.losses._hash_centers import gilbert_varshamov_distance
    >>> [gilbert_varshamov_distance(10, n_bits) for n_bits in (16, 32, 48, 64)]
    [6, 13, 21, 28]
    """
    radius, ball = 0, 1
    while n_classes * ball < 2**n_bits:
        radius += 1
        ball += comb(n_bits, radius)
    return radius + 1


def multilabel_centers(indicator, centers, ties) -> torch.Tensor:
    """Return the sign of the sum of each row's centres.

    Parameters
    ----------
    indicator : Tensor of shape (n, n_classes), float
        1 where a row has a label. With one label a row has that centre.
    centers : Tensor of shape (n_classes, n_bits)
    ties : Tensor of shape (n_bits,)
        The signs that sums of zero take.
    """
    sums = indicator @ centers
    return torch.where(sums == 0, ties, sums.sign())


def _random_signs(n_rows, n_bits, generator):
    return torch.randint(0, 2, (n_rows, n_bits), generator=generator) * 2.0 - 1


def _hadamard_centers(n_classes, n_bits, generator):
    blocks = [1 << i for i in range(n_bits.bit_length()) if n_bits >> i & 1]
    largest = blocks[-1]
    n_rows = min(n_classes, 2 * largest)
    centers = []
    for size in blocks:
        order = torch.randperm(size, generator=generator)
        signs = _random_signs(size, 1, generator)
        rows = signs * _sylvester(size)[order]
        both = torch.cat([rows, -rows])
        centers.append(both[torch.arange(n_rows) % len(both)])
    rest = _random_signs(n_classes - n_rows, n_bits, generator)
    return torch.cat([torch.cat(centers, dim=1), rest])


def _sylvester(size):
    """Return the Hadamard matrix of a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        top = torch.cat([matrix, matrix], dim=1)
        matrix = torch.cat([top, torch.cat([matrix, -matrix], dim=1)])
    return matrix


def _distant_centers(n_classes, n_bits, generator):
    centers = _hadamard_centers(n_classes, n_bits, generator)
    # Two codes that differ in d bits have the inner product n_bits - 2 d.
    largest = n_bits - 2 * gilbert_varshamov_distance(n_classes, n_bits)
    for _ in range(4 * n_classes):
        products = (centers @ centers.T).fill_diagonal_(-n_bits)
        nearest, worst = products.amax(dim=1).max(dim=0)
        if nearest <= largest:
            break
        candidates = _random_signs(CANDIDATES, n_bits, generator)
        others = candidates @ centers.T
        others[:, worst] = -n_bits
        products, best = others.amax(dim=1).min(dim=0)
        if products < nearest:
            centers[worst] = candidates[best]
    return centers


CENTERS = {
    "bernoulli": _random_signs,
    "distance": _distant_centers,
    "hadamard": _hadamard_centers,
}
