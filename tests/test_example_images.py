import importlib.util
import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from cases import each
from scipy import stats

FILE = Path(__file__).parents[1] / "examples" / "data" / "images.py"
spec = importlib.util.spec_from_file_location("example_images", FILE)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
affine, flip_crop, random_affine = module.affine, module.flip_crop, module.random_affine


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
    found = Counter(x.numpy().tobytes() for x in flip_crop(images, generator))
    assert found.keys() == crops
    assert stats.chisquare(list(found.values())).pvalue > 1e-3


def test_quarter_turns_and_shifts_by_pixels_are_exact():
    images, _ = random_images(1, (8, 8))
    turned = affine(images, torch.tensor([math.pi / 2]), torch.zeros(1, 2))
    expected = torch.rot90(images, 1, (2, 3))
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=0)
    images, _ = random_images(1)
    moved = affine(images, torch.zeros(1), torch.tensor([[2 / 8, -1 / 16]]))
    expected = torch.zeros_like(images)
    expected[:, :, :-1, 2:] = images[:, :, 1:, :-2]
    torch.testing.assert_close(moved, expected, atol=1e-5, rtol=0)


def test_a_turn_keeps_circles_round_in_images_of_any_shape():
    y, x = centered_grid(16, 24)
    blob = torch.exp(-(x**2 + y**2) / 18)[None, None]
    turned = affine(blob, torch.tensor([0.7]), torch.zeros(1, 2))
    # Bilinear interpolation is off by at most curvature / 4 for a step of a pixel.
    assert (turned - blob).abs().max() < 2 / 9 / 4


def test_random_affine_draws_turn_and_shifts_uniformly_and_apart():
    """Read off the moments of a long blob: its centre, and where it points."""
    n = 400
    y, x = centered_grid(40, 40)
    blob = torch.exp(-(x**2) / 50 - y**2 / 8)[None, None].repeat(n, 1, 1, 1)
    moved = random_affine(blob, torch.Generator().manual_seed(0))[:, 0]

    def mean(values):
        return (moved * values).sum(dim=(1, 2)) / moved.sum(dim=(1, 2))

    right, down = mean(x), mean(y)
    xx, yy, xy = mean(x**2) - right**2, mean(y**2) - down**2, mean(x * y) - right * down
    turn = torch.atan2(2 * xy, xx - yy) / 2
    draws = torch.stack([right / 2, down / 2, turn / math.radians(10)])  # 2 is 5 %
    assert draws.abs().max() < 1.02
    for values in draws:
        assert stats.kstest(values, "uniform", (-1, 2)).pvalue > 1e-3
    correlations = torch.corrcoef(draws)[[0, 0, 1], [1, 2, 2]]
    assert correlations.abs().max() < 4 / n**0.5


@each("augment", module.AUGMENTATIONS.values())
def test_every_image_is_drawn_from_the_generator(augment):
    images, _ = random_images(20)
    state = torch.get_rng_state()
    first, again, other = (
        augment(images, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert len(first.flatten(1).unique(dim=0)) > 10
