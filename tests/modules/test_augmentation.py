import itertools
import math

import numpy as np
import torch

from skhash.modules._augmentation import affine, flip_crop, random_affine


def random_images(n_images=200, size=(16, 8)):
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(1, 2, *size, generator=generator)
    return image.repeat(n_images, 1, 1, 1), generator


def centered_grid(height, width):
    y = torch.arange(height) - (height - 1) / 2
    x = torch.arange(width) - (width - 1) / 2
    return torch.meshgrid(y, x, indexing="ij")


def test_flip_crop_makes_every_crop_of_the_padded_image_and_no_other():
    images, generator = random_images(2000)
    height, width = images.shape[-2:]
    margins = height // 8, width // 8
    image = images[0].numpy()
    padded = np.pad(image, ((0, 0), (margins[0],) * 2, (margins[1],) * 2))
    crops = {
        padded[:, top : top + height, left : left + width][:, :, ::step].tobytes()
        for top, left, step in itertools.product(
            range(2 * margins[0] + 1), range(2 * margins[1] + 1), (1, -1)
        )
    }
    assert len(crops) == 5 * 3 * 2
    found = {np.ascontiguousarray(x).tobytes() for x in flip_crop(images, generator)}
    assert found == crops


def test_a_quarter_turn_is_exact():
    images, _ = random_images(1, (8, 8))
    turned = affine(images, torch.tensor([math.pi / 2]), torch.zeros(1, 2))
    expected = torch.rot90(images, 1, (2, 3))
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=0)


def test_a_shift_by_pixels_is_exact():
    images, _ = random_images(1)
    moved = affine(images, torch.zeros(1), torch.tensor([[2 / 8, -1 / 16]]))
    expected = torch.zeros_like(images)
    expected[:, :, :-1, 2:] = images[:, :, 1:, :-2]
    torch.testing.assert_close(moved, expected, atol=1e-5, rtol=0)


def test_a_turn_keeps_circles_round_in_images_of_any_shape():
    y, x = torch.meshgrid(
        torch.arange(16) - 7.5, torch.arange(24) - 11.5, indexing="ij"
    )
    blob = torch.exp(-(x**2 + y**2) / 18)[None, None]
    turned = affine(blob, torch.tensor([0.7]), torch.zeros(1, 2))
    # Bilinear interpolation is off by at most curvature / 4 for a step of a pixel.
    assert (turned - blob).abs().max() < 2 / 9 / 4


def test_random_affine_stays_small():
    """The centre of mass moves by no more than the shift."""
    y, x = centered_grid(20, 20)
    blob = torch.exp(-(x**2 + y**2) / 8)[None, None].repeat(300, 1, 1, 1)
    moved = random_affine(blob, torch.Generator().manual_seed(0))
    mass = moved.sum(dim=(1, 2, 3))
    for places in (x, y):
        center = (moved * places).sum(dim=(1, 2, 3)) / mass
        assert 0.8 < center.abs().max() < 1.01
        assert center.min() < -0.8 and center.max() > 0.8
