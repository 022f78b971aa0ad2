"""For networks of images: convolutions of the papers, and random changes."""

import math

import torch
from torch.nn.functional import affine_grid, grid_sample, pad

# The papers': at 32 pixels a crop moves by at most 4.
CROP_SHARE, SHIFT_SHARE, MAX_ANGLE = 1 / 8, 0.05, math.radians(10)


def allconv(few, many) -> list[dict]:
    """Return eight convolutions, of `few` and `many` channels, two with stride 2.

    The network of Shekhovtsov, Yanush and Flach (2020) for images of 32 x 32. Nothing
    is padded: images of 27 x 27 are the least.
    """
    kernels, strides = [3] * 7 + [1], [1, 1, 2, 1, 1, 2, 1, 1]
    return [
        {"n_channels": width, "kernel_size": kernel, "stride": stride}
        for width, kernel, stride in zip(
            [few] * 3 + [many] * 5, kernels, strides, strict=True
        )
    ]


def vgg(*channels) -> list[dict]:
    """Return pairs of convolutions with pooling: each halves height and width.

    The network of Shekhovtsov and Yanush (2021) for images of 32 x 32 has two fully
    connected layers of 1024 units behind.
    """
    return [
        {"n_channels": width, "kernel_size": 3, "padding": 1, "pool": pool}
        for width in channels
        for pool in (None, 2)
    ]


def flip_crop(images, generator=None):
    """Mirror half of the images, and move each by up to an eighth of its size.

    Parameters
    ----------
    images : Tensor of shape (n_images, channels, height, width)
        What moves in from outside is 0.
    generator : torch.Generator or None
    """
    n_images, _, *size = images.shape
    margins = [round(CROP_SHARE * n) for n in size]
    places = []
    for n, margin in zip(size, margins, strict=True):
        first = torch.randint(
            2 * margin + 1, (n_images, 1), generator=generator, device=images.device
        )
        places.append(first + torch.arange(n, device=images.device))
    rows, columns = places
    mirrored = _draw(n_images, generator, images) < 0.5
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    padded = pad(images, [margins[1]] * 2 + [margins[0]] * 2).movedim(1, -1)
    index = torch.arange(n_images, device=images.device)[:, None, None]
    return padded[index, rows[:, :, None], columns[:, None]].movedim(-1, 1)


def random_affine(images, generator=None):
    """Turn each image by up to 10 degrees, and move it by up to 5 % of its size.

    Parameters are those of `flip_crop`.
    """
    draws = [2 * _draw(len(images), generator, images) - 1 for _ in range(3)]
    shifts = SHIFT_SHARE * torch.stack(draws[1:], dim=1)
    return affine(images, MAX_ANGLE * draws[0], shifts)


def affine(images, angles, shifts):
    """Return images turned and moved, by bilinear interpolation.

    Parameters
    ----------
    images : Tensor of shape (n_images, channels, height, width)
    angles : Tensor of shape (n_images,)
        In radians, counterclockwise.
    shifts : Tensor of shape (n_images, 2)
        To the right and down, as shares of width and height.
    """
    height, width = images.shape[-2:]
    cos, sin = angles.cos(), angles.sin()
    # From places in the result to places in the image, both in [-1, 1].
    linear = torch.stack(
        [cos, -sin * height / width, sin * width / height, cos], dim=1
    ).reshape(-1, 2, 2)
    offset = -2 * linear @ shifts[:, :, None]
    grid = affine_grid(torch.cat([linear, offset], 2), images.shape, False)
    return grid_sample(images, grid, align_corners=False)


AUGMENTATIONS = {"affine": random_affine, "flip_crop": flip_crop}


def _draw(n, generator, images):
    return torch.rand(n, generator=generator, device=images.device)
