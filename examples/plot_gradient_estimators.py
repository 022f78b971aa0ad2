"""
Gradients through binary units
==============================

A binary unit is on with a probability given by its logit. The derivative of a sampled
bit with respect to that logit is zero wherever it exists, so gradient estimators use
something else. This example shows what straight-through estimators use, and measures
with `gradient_report` how far they are from the true gradient.
"""

# %%
# Noise and its proxy
# -------------------
#
# A unit is on if its logit exceeds random noise with distribution function F. With
# values -1 and +1, its mean is ``2 F(a) - 1``, a smooth replacement for the sign.
# Straight-through keeps the sampled value in the forward pass, and uses the derivative
# of this mean, twice the density, in the backward pass. So the noise determines the
# shape of the derivative. All families are scaled to slope one at zero.

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from skhash.gradients import gradient_report
from skhash.networks import BinaryLinear, RealLinear, StochasticBinaryNetwork
from skhash.noise import Logistic, Normal, Triangular, Uniform

COLORS = ["#1b6ca8", "#d95f02", "#2a9d6f", "#8e5ea2"]
a = torch.linspace(-3, 3, 1201)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained")
right.plot(a, a.sign(), color="0.6", linewidth=1.2, label="sign")
for noise, color in zip((Logistic, Uniform, Triangular, Normal), COLORS, strict=True):
    left.plot(a, noise().pdf(a), color=color, label=noise.__name__.lower())
    right.plot(a, 2 * noise().cdf(a) - 1, color=color)
left.set_title("density of the noise", fontsize="medium")
right.set_title("sign, and the mean $2F(a) - 1$ of a unit", fontsize="medium")
for ax in (left, right):
    ax.set_xlabel("logit a")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize="small")
plt.show()

# %%
# One report
# ----------
#
# The model is an autoencoder before training: random logits, and a decoder with one
# hidden layer and random weights of the usual size, uniform between plus and minus
# ``1 / sqrt(k)`` for k inputs. The loss is the cross-entropy between random target
# frequencies and the decoder's softmax.


def random_model(n_bits, seed, n_rows=8, n_hidden=32, n_words=30):
    """Return the loss as a function of bits, and the logits."""
    generator = torch.Generator().manual_seed(seed)

    def standard(n_inputs, n_outputs):
        weight = torch.rand((n_inputs, n_outputs), generator=generator)
        return (2 * weight - 1) / n_inputs**0.5

    first, second = standard(n_bits, n_hidden), standard(n_hidden, n_words)
    words = torch.randn((n_rows, n_words), generator=generator)
    targets = (2 * words).softmax(dim=1)
    logits = words @ standard(n_words, n_bits)

    def loss(bits):
        outputs = torch.relu(bits @ first) @ second
        return -(targets * outputs.log_softmax(dim=-1)).sum(dim=-1)

    return loss, logits


NAMES = ["st", "det_st", "identity_st", "zgr", "gumbel", "disarm", "arm"]
loss, logits = random_model(n_bits=8, seed=0)
report = gradient_report(loss, logits, NAMES, random_state=0)
print(report)

# %%
# The reference is exact, because all 256 states of eight bits can be enumerated. The
# cosine similarity, on the left, is that of one sampled gradient and the true one. The
# bias is the distance of the mean of all samples from the true gradient. The black tick
# is the bias that an unbiased estimator with the same noise would show by chance.

report.plot()
plt.show()

# %%
# More bits
# ---------
#
# The next picture shows the same for codes of 2 to 12 bits, as means of three random
# models.

LINES = dict(zip(["st", "det_st", "zgr", "arm"], COLORS, strict=True))
SIZES, SEEDS = [2, 4, 6, 8, 10, 12], range(3)
means = {}
for n_bits in SIZES:
    rows = []
    for seed in SEEDS:
        model = random_model(n_bits, seed)
        rows += gradient_report(*model, list(LINES), n_trials=150, random_state=0).rows
    for name in LINES:
        own = [row for row in rows if row.estimator == name]
        for metric in ("bias", "bias_floor", "cosine"):
            values = [getattr(row, metric) for row in own]
            means[name, metric, n_bits] = sum(values) / len(values)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for name, color in LINES.items():
    for ax, metric in zip(axes, ["cosine", "bias"], strict=True):
        values = [means[name, metric, n_bits] for n_bits in SIZES]
        ax.plot(SIZES, values, "o-", markersize=4, color=color, label=name)
    floor = [means[name, "bias_floor", n_bits] for n_bits in SIZES]
    axes[1].plot(SIZES, floor, ":", color=color)
axes[1].plot([], [], ":", color="0.3", label="chance alone")
axes[1].set_yscale("log")
axes[1].set_ylim(bottom=0.03)  # det_st samples nothing, so it has no chance part
axes[0].set_title("cosine similarity to the true gradient", fontsize="medium")
axes[1].set_title("bias over the norm of the gradient", fontsize="medium")
for ax in axes:
    ax.set_xlabel("bits")
    ax.set_xticks(SIZES)
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
lines = axes[1].get_legend_handles_labels()
figure.legend(*lines, loc="outside lower center", ncols=5, frameon=False)
plt.show()

# %%
# In these models, the bias of straight-through is smaller with twelve bits than with
# two, while that of the deterministic variant stays at about half of the gradient or
# more. The apparent bias of ARM is due to chance. The price of ARM is noise: its cosine
# falls as bits are added.

# %%
# Your own module
# ---------------
#
# Any torch module that maps rows to logits works, together with a loss that takes the
# sampled bits and returns one number per row. Here they are the encoder and the loss of
# an autoencoder of digits with eight bits, before training. The targets, here the
# images themselves, are passed to the loss through `y`.

X = torch.tensor(load_digits().data[:64] / 16, dtype=torch.float32)
torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))


def squared_error(bits, images):
    return (decoder(bits) - images).square().sum(dim=-1)


report = gradient_report(encoder, X, NAMES, loss=squared_error, y=X, random_state=0)
report.plot()
plt.show()

# %%
# The error is that of one sampled gradient. Its square has two parts: the squared bias,
# which averaging does not reduce, and the squared spread, which averaging does reduce.
# In this model, ZGR is nearest to the gradient, followed by straight-through; the error
# of ``"det_st"`` is all bias, and that of ``"arm"`` all spread.
#
# For a network of binary units, the report has each layer. This is the lower of two
# layers, whose units affect the loss only through the units above.

y = torch.tensor(load_digits().target[:64])
generator = torch.Generator().manual_seed(0)
layers = [BinaryLinear(n, 8, generator=generator) for n in (64, 8)]
network = StochasticBinaryNetwork(layers, RealLinear(8, 10, generator=generator))


def cross_entropy(outputs, classes):
    return -outputs.log_softmax(dim=-1)[..., torch.arange(len(classes)), classes]


names = ["psa", "st", "zgr", "adf", "disarm"]
report = gradient_report(network, X, names, loss=cross_entropy, y=y, random_state=0)
report.plot(group="layers.0")
plt.show()

# %%
# ADF and PSA are nearest to the gradient here. DisARM, which has no bias, resamples the
# layer above for each evaluation, and the resulting noise is several times the
# gradient.
