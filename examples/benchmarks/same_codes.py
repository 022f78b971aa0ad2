"""Whether two commits give the same results, bit for bit.

Every option of the estimators that changes a result is a case below: what it gives on
small data with one thread is compared between a temporary checkout of each commit::

    python examples/benchmarks/same_codes.py 2d9711e
    python examples/benchmarks/same_codes.py 2d9711e HEAD --only SBNClassifier

The second commit is HEAD by default. A case is a line of Python, or several, indented
from the second on. Where a commit changed names, a line after ``=>`` says the same in
new terms: what raises there is tried in the old ones, and only what both refuse counts
as raised. Imports of either commit that fail are passed over. Checkouts and compiled
kernels stay in the system's temporary folder for the next time.
"""

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy import sparse

OLD_IMPORTS = """
from skhash import *
from skhash.classification import *
from skhash.codes import *
from skhash.datasets import load_digits_retrieval
from skhash.distributed import ShardedNeighbors
from skhash.export import *
from skhash.gradients import *
from skhash.linear import *
from skhash.losses import *
from skhash.metrics import *
from skhash.modules import *
from skhash.neighbors import *
from skhash.neural import *
from skhash.noise import Logistic, Normal, Triangular, Uniform
from skhash.utils.schedules import LinearSchedule
"""
NEW_IMPORTS = """
from skhash.audit import *
from skhash.classification._architectures import VGG, AllConv
from skhash.losses._hash_centers import *
from skhash.losses._likelihoods import *
from skhash.networks import *
from skhash.persistence import load
from skhash.training import LinearSchedule, Optimizer
"""

CASES = """
# Linear methods
codes(RandomHyperplaneHash(24, random_state=0).fit(X))
codes(RandomHyperplaneHash(24, center=False, random_state=0).fit(X))
codes(RandomHyperplaneHash(24, normalize=True, random_state=0).fit(S))
codes(PCAHash(16).fit(X))
codes(PCAHash(16, rotation="random", random_state=0).fit(X))
codes(PCAHash(16, normalize=True).fit(S))
codes(ITQHash(16, random_state=0).fit(X))
codes(ITQHash(16, max_iter=5, normalize=True, random_state=0).fit(S))
codes(KMeansHash(16, random_state=0).fit(X))
codes(KMeansHash(9, subspace_bits=2, lam=1.0, random_state=0).fit(X))
=> codes(KMeansHash(9, subspace_bits=2, affinity_weight=1.0, random_state=0).fit(X))
codes(KMeansHash(8, max_iter=3, normalize=True, random_state=0).fit(S))
codes(SpectralHash(24).fit(X))
codes(SpectralHash(24, trim=0, normalize=True).fit(S))
codes(SphericalHash(16, random_state=0).fit(X))
codes(SphericalHash(16, max_iter=5, normalize=True, random_state=0).fit(S))
codes(ScalableGraphHash(16, n_anchors=40, random_state=0).fit(X))
codes(ScalableGraphHash(16, n_anchors=40, rho=1.0, gamma=0.3, normalize=True,
    random_state=0).fit(S))
=> codes(ScalableGraphHash(16, n_anchors=40, similarity_width=1.0, gamma=0.3,
    normalize=True, random_state=0).fit(S))
codes(SupervisedDiscreteHash(16, n_anchors=100, random_state=0).fit(X, y))
codes(SupervisedDiscreteHash(16, n_anchors=50, random_state=0).fit(S, Y))
codes(SupervisedDiscreteHash(16, n_anchors=50, gamma=0.3, lam=0.1, nu=1e-3, ridge=0.1,
    max_iter=3, tol=1e-2, normalize=True, random_state=0).fit(X, y))
=> codes(SupervisedDiscreteHash(16, n_anchors=50, gamma=0.3, class_ridge=0.1,
    projection_weight=1e-3, projection_ridge=0.1, max_iter=3, tol=1e-2, normalize=True,
    random_state=0).fit(X, y))
codes(BinaryAutoencoderHash(12, max_iter=4, random_state=0).fit(X))
codes(BinaryAutoencoderHash(8, max_iter=4, random_state=0).fit(X))
codes(BinaryAutoencoderHash(20, max_iter=4, random_state=0).fit(X))
codes(BinaryAutoencoderHash(12, mu=0.1, mu_growth=1.5, C=0.1, max_iter=6,
    validation_fraction=0.2, normalize=True, random_state=0).fit(S))
=> codes(BinaryAutoencoderHash(12, penalty=0.1, penalty_growth=1.5, hinge_weight=0.1,
    max_iter=6, validation_fraction=0.2, normalize=True, random_state=0).fit(S))
decoder(LinearDecoder())
decoder(LinearDecoder(n_alternations=3, n_restarts=4))
loaded(ITQHash(16, random_state=0).fit(X))
loaded(SphericalHash(16, random_state=0).fit(X))
loaded(SupervisedDiscreteHash(16, n_anchors=50, random_state=0).fit(X, y))

# SGHEncoder
codes(SGHEncoder(16, **FEW).fit(X))
codes(SGHEncoder(80, **FEW).fit(X))
codes(SGHEncoder(16, **FEW).fit(S))
codes(SGHEncoder(16, coding="pm1", **FEW).fit(X))
codes(SGHEncoder(16, gradient="exact", **FEW).fit(X))
codes(SGHEncoder(16, gradient="linear", **FEW).fit(X))
codes(SGHEncoder(16, gradient="exact", coding="pm1", **FEW).fit(X))
codes(SGHEncoder(16, init="itq", **FEW).fit(X))
codes(SGHEncoder(16, init="pca", **FEW).fit(X))
codes(SGHEncoder(16, init="random", **FEW).fit(X))
codes(SGHEncoder(16, scale="latent", **FEW).fit(X))
codes(SGHEncoder(16, scale="latent", scale_std=0.6, gradient="exact", coding="pm1",
    **FEW).fit(X))
=> codes(SGHEncoder(16, scale=LatentScale(0.6), gradient="exact", coding="pm1",
    **FEW).fit(X))
codes(SGHEncoder(16, scale="latent", gradient="linear", **FEW).fit(S))
codes(SGHEncoder(16, kl_weight=1.0, **FEW).fit(X))
codes(SGHEncoder(16, weight_penalty=0.1, **FEW).fit(X))
codes(SGHEncoder(16, refit_decoder=False, **FEW).fit(X))
codes(SGHEncoder(16, normalize=True, **FEW).fit(X))
codes(SGHEncoder(16, lr=0.1, lr_schedule="inverse_sqrt", **FEW).fit(X))
codes(SGHEncoder(16, averaging="random", **FEW).fit(X))
codes(SGHEncoder(16, averaging="mean", lr_schedule="inverse_sqrt", **FEW).fit(X))
codes(SGHEncoder(16, batch_size=50, optimizer="sgd", lr=0.001, **FEW).fit(X))
codes(SGHEncoder(16, train_split=0.2, **FEW).fit(X))
=> codes(SGHEncoder(16, validation_fraction=0.2, **FEW).fit(X))
codes(SGHEncoder(16, train_split=0.2, lr=0.3, max_epochs=9, random_state=0,
    callbacks=[EarlyStopping(patience=1)]).fit(X))
=> codes(SGHEncoder(16, validation_fraction=0.2, lr=0.3, max_epochs=9, random_state=0,
    callbacks=[EarlyStopping(patience=1)]).fit(X))
codes(SGHEncoder(16, pair_source="labels", **FEW).fit(X, unknown))
=> codes(SGHEncoder(16, pairs="labels", **FEW).fit(X, unknown))
codes(SGHEncoder(16, pair_source="neighbors", n_neighbors=5, **FEW).fit(X))
=> codes(SGHEncoder(16, pairs=NeighborPairs(5), **FEW).fit(X))
codes(SGHEncoder(16, pair_source="neighbors", scale="latent", coding="pm1",
    gradient="exact", train_split=0.2, **FEW).fit(X))
=> codes(SGHEncoder(16, pairs="neighbors", scale="latent", coding="pm1",
    gradient="exact", validation_fraction=0.2, **FEW).fit(X))
codes(SGHEncoder(16, pair_weight=3.0, **FEW).fit(X, pairs=pairs, pair_labels=similar,
    ids=row_ids))
=> codes(SGHEncoder(16, pairs=GivenPairs(3.0), **FEW).fit(X, pairs=pairs,
    pair_labels=similar, ids=row_ids))
codes(SGHEncoder(16, **FEW).partial_fit(X))
codes(SGHEncoder(16, **FEW).fit(X).partial_fit(Q))
codes(SGHEncoder(16, averaging="mean", lr_schedule="inverse_sqrt", scale="latent",
    **FEW).fit(X).partial_fit(Q).partial_fit(X))
codes(SGHEncoder(16, averaging="random", **FEW).partial_fit(X).partial_fit(Q))
codes(SGHEncoder(16, pair_source="labels", **FEW).partial_fit(X, y).partial_fit(X, y))
=> codes(SGHEncoder(16, pairs="labels", **FEW).partial_fit(X, y).partial_fit(X, y))
codes(SGHEncoder(16, pair_source="neighbors", **FEW).fit(X).partial_fit(Q))
=> codes(SGHEncoder(16, pairs="neighbors", **FEW).fit(X).partial_fit(Q))
loaded(SGHEncoder(16, scale="latent", **FEW).fit(X))
codes(reloaded(SGHEncoder(16, averaging="mean", **FEW).fit(X)).partial_fit(Q))

# StochasticAutoencoderHash
codes(StochasticAutoencoderHash(16, **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, **SMALL).fit(X))
codes(StochasticAutoencoderHash(16, decoder="gaussian", **SMALL).fit(X))
codes(StochasticAutoencoderHash(16, decoder="bernoulli", **SMALL).fit(U), U)
codes(StochasticAutoencoderHash(16, target="presence", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, encoder_input="values", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, encoder_input="frequency", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, encoder_input="presence", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, posterior="correlated", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, posterior="correlated", rank=3, n_mixture=4,
    covariance_scale="rank", decoder="gaussian", **SMALL).fit(X))
=> codes(StochasticAutoencoderHash(16, posterior=CorrelatedPosterior(3, 4, 1 / 3),
    decoder="gaussian", **SMALL).fit(X))
codes(StochasticAutoencoderHash(16, posterior="correlated", covariance_scale=0.2,
    gradient="arm", **SMALL).fit(S))
=> codes(StochasticAutoencoderHash(16, posterior=CorrelatedPosterior(scale=0.2),
    gradient="arm", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient="zgr", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient=ARM(n_samples=3), **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient="reinforce", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient=Reinforce("row"), **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient="muprop", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, gradient="local_expectation", **SMALL).fit(S))
codes(StochasticAutoencoderHash(6, gradient="exact", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, noise="uniform", **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, noise=Normal(0.7), **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, kl_weight=1.0, prior=0.3, **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, kl_weight=LinearSchedule(0, 1, 9),
    decoder_noise=LinearSchedule(1, 0, 9), **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, decoder_noise=0.5, input_dropout=0.0,
    **SMALL | {"dropout": 0.2}).fit(S))
codes(StochasticAutoencoderHash(16, decoder_hidden_layer_sizes=None, **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, decoder_hidden_layer_sizes=(20,),
    decoder="gaussian", **SMALL | {"hidden_layer_sizes": ()}).fit(X))
codes(StochasticAutoencoderHash(16, correction_epochs=1, correction_samples=3,
    **SMALL).fit(S))
=> codes(StochasticAutoencoderHash(16, correction=Correction(n_samples=3,
    n_epochs=1), **SMALL).fit(S))
codes(StochasticAutoencoderHash(16, correction="disarm", correction_epochs=1,
    **SMALL).fit(S).partial_fit(S))
=> codes(StochasticAutoencoderHash(16, correction=Correction("disarm", n_epochs=1),
    **SMALL).fit(S).partial_fit(S))
codes(StochasticAutoencoderHash(16, normalize=True, train_split=0.2, lr=0.01,
    batch_size=50, **SMALL).fit(X))
=> codes(StochasticAutoencoderHash(16, normalize=True, validation_fraction=0.2, lr=0.01,
    batch_size=50, **SMALL).fit(X))
codes(StochasticAutoencoderHash(16, **SMALL).partial_fit(S).partial_fit(S))
codes(StochasticAutoencoderHash(16, posterior="correlated", decoder="gaussian",
    **SMALL).fit(X).partial_fit(Q))
loaded(StochasticAutoencoderHash(16, posterior="correlated", **SMALL).fit(S))
codes(reloaded(StochasticAutoencoderHash(16, **SMALL).fit(S)).partial_fit(S))

# NeighborHash
codes(NeighborHash(40, **FEW).fit(X))
codes(NeighborHash(80, **FEW).fit(X))
codes(NeighborHash(16, **FEW).fit(S))
codes(NeighborHash(40, nested=False, **FEW).fit(X))
codes(NeighborHash(40, nested=(8, 24), **FEW).fit(X))
codes(NeighborHash(40, **FEW).fit(X).truncate(16))
codes(NeighborHash(16, metric="cosine", **FEW).fit(X))
codes(NeighborHash(16, metric="inner_product", **FEW).fit(X))
codes(NeighborHash(16, hidden_layer_sizes=(24,), **FEW).fit(X))
codes(NeighborHash(16, temperature=0.2, n_neighbors=10, **FEW).fit(X))
codes(NeighborHash(16, gradient="st", **FEW).fit(X))
codes(NeighborHash(16, gradient="zgr", **FEW).fit(X))
codes(NeighborHash(80, distance_weight=0.0, **FEW).fit(X))
codes(NeighborHash(80, reconstruction_weight=0.0, **FEW).fit(X))
codes(NeighborHash(16, lr_schedule=None, **FEW).fit(X))
codes(NeighborHash(16, hidden_layer_sizes=(24,), **FEW).fit(X, y))
codes(NeighborHash(16, graph="exact", **FEW).fit(X))
codes(NeighborHash(16, graph=kneighbors_graph(X, 4), **FEW).fit(X))
codes(NeighborHash(16, max_train_samples=150, **FEW).fit(X))
codes(NeighborHash(16, normalize=True, lr=0.03, batch_size=64, optimizer="sgd",
    **FEW).fit(X))
codes(NeighborHash(16, train_split=0.2, **FEW).fit(X))
=> codes(NeighborHash(16, validation_fraction=0.2, **FEW).fit(X))
codes(NeighborHash(80, **FEW).fit(X, unknown))
codes(NeighborHash(16, **FEW).fit(X, Y))
codes(NeighborHash(80, **FEW).partial_fit(X).partial_fit(Q))
codes(NeighborHash(16, **FEW).fit(X, y).partial_fit(X, y))
loaded(NeighborHash(40, hidden_layer_sizes=(24,), **FEW).fit(X))
codes(reloaded(NeighborHash(40, **FEW).fit(X)).partial_fit(Q))

# SupervisedHash
codes(SupervisedHash(16, **SMALL).fit(X, y))
codes(SupervisedHash(16, **SMALL).fit(S, Y))
codes(SupervisedHash(16, loss=SupervisedContrastiveLoss(0.5), **SMALL).fit(X, y))
codes(SupervisedHash(16, loss="cross_entropy", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss="cross_entropy", **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="csq", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss="csq", **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss=CSQLoss("bernoulli", 0.01), **SMALL).fit(X, y))
codes(SupervisedHash(16, loss="dhn", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=DHNLoss(0.5, 0.2), **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="dsdh", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=DSDHLoss(0.5, 2.0, 0.1, 3, 0.2), **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="dsh", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=DSHLoss(4.0, 0.1), **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="dtsh", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=DTSHLoss(4.0, 0.1), **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="hashnet", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=HashNetLoss(0.2, 1), **SMALL).fit(X, Y))
codes(SupervisedHash(16, loss="mdshc", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=MDSHCLoss("hadamard", 0.5, 1, 0.5, 0.2),
    **SMALL).fit(X, y))
codes(SupervisedHash(16, loss="orthohash", **SMALL).fit(X, y))
codes(SupervisedHash(16, loss=OrthoHashLoss("bernoulli", 0.1, "arc", 4.0),
    **SMALL).fit(X, y))
codes(SupervisedHash(16, module=own_module, **SMALL).fit(X, y))
codes(SupervisedHash(16, module=own_images, input_shape=(1, 8, 8), **SMALL).fit(X, y))
codes(SupervisedHash(16, balanced=False, weight_decay=0.1, normalize=True, lr=0.01,
    batch_size=50, optimizer="sgd", train_split=0.2, **SMALL).fit(X, y))
=> codes(SupervisedHash(16, balanced=False, weight_decay=0.1, normalize=True, lr=0.01,
    batch_size=50, optimizer="sgd", validation_fraction=0.2, **SMALL).fit(X, y))
codes(SupervisedHash(16, **SMALL | {"hidden_layer_sizes": (24, 12)}).fit(X, y))
loaded(SupervisedHash(16, **SMALL).fit(X, y))

# DualHashEncoder
codes(DualHashEncoder(16, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(), **SHORT).fit(X, y))
codes(DualHashEncoder(16, **DUAL).fit(S, Y))
=> codes(DualHashEncoder(16, loss=warm(), **SHORT).fit(S, Y))
codes(DualHashEncoder(16, split_solver="dual", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm("dual"), **SHORT).fit(X, y))
codes(DualHashEncoder(16, split_solver="dual_dc", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm("dual_dc"), **SHORT).fit(X, y))
codes(DualHashEncoder(16, split_solver="none", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(None), **SHORT).fit(X, y))
codes(DualHashEncoder(16, split_solver="subgradient", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm("subgradient"), **SHORT).fit(X, y))
codes(DualHashEncoder(16, split_solver="wcr", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm("wcr"), **SHORT).fit(X, y))
codes(DualHashEncoder(16, w_weight=0.1, penalty=0.3, u_step=0.5, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(Prox(0.5), w_weight=0.1, penalty=0.3),
    **SHORT).fit(X, y))
codes(DualHashEncoder(16, split_solver="dual_dc", dual_step=0.5, extrapolation=0.5,
    u_init="itq", **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(DualDC("auto", 0.5, 0.5), u_init="itq"),
    **SHORT).fit(X, y))
codes(DualHashEncoder(16, u_init="itq", **DUAL | {"warmup_epochs": 0}).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(u_init="itq", warmup_epochs=0),
    **SHORT).fit(X, y))
codes(DualHashEncoder(16, logit_scale=0.3, pair_weights=None, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(logit_scale=0.3, pair_weights=None),
    **SHORT).fit(X, y))
codes(DualHashEncoder(16, pair_weights=None, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(pair_weights=None), **SHORT).fit(X, y))
codes(DualHashEncoder(16, update="momentum", momentum=0.5, lr=0.1, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(), lr=0.1, optimizer=Optimizer("sgd",
    momentum=0.5, nesterov=True), **SHORT).fit(X, y))
codes(DualHashEncoder(16, update="storm", storm_c=0.3, lr=0.1, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(), lr=0.1, optimizer=Optimizer("storm",
    forgetting=0.3), **SHORT).fit(X, y))
codes(DualHashEncoder(16, update="storm", dropout=0.3, split_solver="dual_dc",
    **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm("dual_dc"), optimizer="storm", dropout=0.3,
    **SHORT).fit(X, y))
codes(DualHashEncoder(16, module=own_module, train_split=0.2, normalize=True,
    weight_decay=0.1, batch_size=50, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(), module=own_module, validation_fraction=0.2,
    normalize=True, weight_decay=0.1, batch_size=50, **SHORT).fit(X, y))
codes(DualHashEncoder(16, balanced=False, **DUAL).fit(X, y))
=> codes(DualHashEncoder(16, loss=warm(), balanced=False, **SHORT).fit(X, y))
loaded(DualHashEncoder(16, **DUAL).fit(X, y))
=> loaded(DualHashEncoder(16, loss=warm(), **SHORT).fit(X, y))

# SBNClassifier
classes(SBNClassifier((24, 16), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), **FEW).fit(S, word))
classes(SBNClassifier((24,), **FEW).fit(X, y == 3))
classes(SBNClassifier((24, 16), **FEW).fit(X, y, sample_weight=weights))
classes(SBNClassifier((24, 16), class_weight="balanced", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), class_weight={3: 5.0}, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="zgr", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="det_st", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="gumbel", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="st_gumbel", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="hard_st", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="identity_st", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="tanh", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="psa", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(enhanced=True), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(), noise="normal", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(tolerance=0.1), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(tolerance=1e-12), noise="logistic",
    **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(gamma=0.5), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient=PSA(), weights="mirror",
    **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="adf", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="local_reparam", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="arm", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="disarm", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="reinforce", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="muprop", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), gradient="rloo", **FEW).fit(X, y))
classes(SBNClassifier((12, 8), gradient="local_expectation", **FEW).fit(X, y))
classes(SBNClassifier((12, 8), gradient="bitflip", **FEW).fit(X, y))
classes(SBNClassifier((4, 3), gradient="exact_network", batch_norm=False,
    **FEW).fit(X, y))
classes(SBNClassifier((24, 16), weights="mirror", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), weights="mirror", prior_strength=1.0,
    **FEW).fit(X, y))
=> classes(SBNClassifier((24, 16), weights=MirrorWeights(1.0), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), weights="pgd", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), weights="bayesbinn", optimizer="sgd", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), noise="uniform", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), noise="triangular", gradient="psa", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), noise=Normal(2.0), **FEW).fit(X, y))
classes(SBNClassifier((24, 16), batch_norm=False, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), batch_norm=False, init="default", **FEW).fit(X, y))
classes(SBNClassifier((24, 16), n_train_samples=3, **FEW).fit(X, y))
=> classes(SBNClassifier((24, 16), n_draws=3, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), n_train_samples=3, objective="multi_sample",
    **FEW).fit(X, y))
=> classes(SBNClassifier((24, 16), n_draws=3, objective="multi_sample",
    **FEW).fit(X, y))
classes(SBNClassifier((24, 16), n_predict_samples=3, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), lr_schedule="cosine", lr=0.1, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), lr_schedule="step", batch_size=50, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), validation_fraction=0.2, **FEW).fit(X, y))
classes(SBNClassifier((16,), architecture="vgg", channels=(4, 8),
    input_shape=(1, 8, 8), augment="flip_crop", **FEW).fit(X, y))
=> classes(SBNClassifier((16,), architecture=VGG((4, 8)), input_shape=(1, 8, 8),
    augment="flip_crop", **FEW).fit(X, y))
classes(SBNClassifier((16,), architecture="vgg", channels=(4, 8), weights="mirror",
    gradient="zgr", input_shape=(1, 8, 8), augment="affine", **FEW).fit(X, y))
=> classes(SBNClassifier((16,), architecture=VGG((4, 8)), input_shape=(1, 8, 8),
    weights="mirror", gradient="zgr", augment="affine", **FEW).fit(X, y))
classes(SBNClassifier((), architecture="allconv", channels=(4, 6), gradient="psa",
    input_shape=(1, 32, 32), max_epochs=1, random_state=0).fit(images[:60], y[:60]),
    images[:9])
=> classes(SBNClassifier((), architecture=AllConv((4, 6)), gradient="psa",
    input_shape=(1, 32, 32), max_epochs=1, random_state=0).fit(images[:60], y[:60]),
    images[:9])
classes(SBNClassifier(architecture=own_network, **FEW).fit(X, y))
classes(SBNClassifier((24, 16), **FEW).partial_fit(X, y, classes=range(10)))
classes(SBNClassifier((24, 16), weights="mirror", **FEW).fit(X, y).partial_fit(
    Q, y[:100], sample_weight=weights[:100]))
classes(reloaded(SBNClassifier((24, 16), **FEW).fit(X, y)))
classes(reloaded(SBNClassifier((24, 16), **FEW).fit(X, y)).partial_fit(X, y))
SBNClassifier((24, 16), **FEW).fit(X, y).export_deterministic().predict_proba(X)
SBNClassifier((16,), architecture="vgg", channels=(4, 8), input_shape=(1, 8, 8),
    **FEW).fit(X, y).export_deterministic().predict_proba(X)
=> SBNClassifier((16,), architecture=VGG((4, 8)), input_shape=(1, 8, 8),
    **FEW).fit(X, y).export_deterministic().predict_proba(X)

# Search
search(HammingNeighbors(7, radius=3).fit(bits))
search(HammingNeighbors(7, radius=9, algorithm="brute").fit(bits))
search(HammingNeighbors(7, radius=9, algorithm="multi_index").fit(bits))
search(HammingNeighbors(7, radius=9, algorithm="pruned").fit(bits))
search(HammingNeighbors(7, radius=9, algorithm="brute", n_jobs=2).fit(bits[:, :37]), 37)
search(HammingNeighbors(7, radius=3, algorithm="multi_index").fit(bits[:, :37]), 37)
search(HammingNeighbors(7, radius=3, algorithm="pruned").fit(bits[:, :37]), 37)
search(HammingNeighbors(7, radius=0).fit(bits[:, :5]), 5)
HammingNeighbors(500, packed=True).fit(packed).kneighbors(pack_bits(queries))
filtered(HammingNeighbors(7, radius=9, algorithm="brute").fit(bits))
filtered(HammingNeighbors(7, radius=9, algorithm="multi_index").fit(bits))
filtered(HammingNeighbors(7, radius=9, algorithm="pruned").fit(bits))
changed(HammingNeighbors(7, radius=9, algorithm="brute"))
changed(HammingNeighbors(7, radius=9, algorithm="multi_index"))
changed(HammingNeighbors(7, radius=9, algorithm="pruned"))
changed(HammingNeighbors(7, radius=9))
HammingNeighbors(7).fit(bits, bits[:, 0]).score(queries, queries[:, 0])
HammingNeighbors(7).fit(bits, bits[:, :3]).score(queries, queries[:, :3])
PrefixNeighbors(7, prefix_bits=24, n_candidates=50).fit(bits).kneighbors(queries)
PrefixNeighbors(7, prefix_bits=16, packed=True).fit(packed).kneighbors(packed[:30])
ShardedNeighbors(7).fit([packed[:900], packed[900:]]).kneighbors(packed[:30])
ShardedNeighbors(radius=9).fit([packed[:900], packed[900:]]).radius_neighbors(
    packed[:9])
merge_neighbors([HammingNeighbors(7).fit(bits[i::2]).kneighbors(queries)
    for i in (0, 1)])
radius_pairs(bits[:600], 12)
radius_pairs(packed, 4, packed=True)
duplicate_groups(bits, 4)
duplicate_groups(packed, 0, packed=True)
asymmetric_scores(Q, short, book)
asymmetric_scores(Q, short, book, metric="inner_product")
asymmetric_scores(Q, short, book, metric="cosine")
asymmetric_scores(Q, pack_bits(short), book, packed=True)
HammingNeighbors(9, rerank="asymmetric", n_candidates=40).fit(
    short, decoder=book).kneighbors(short[:50], vectors=X[:50])
=> AsymmetricNeighbors(9, n_candidates=40).fit(
    short, decoder=book).kneighbors(X[:50], codes=short[:50])
HammingNeighbors(9, rerank="asymmetric", n_candidates=None).fit(
    short, decoder=book).kneighbors(short[:50], vectors=X[:50])
=> AsymmetricNeighbors(9).fit(short, decoder=book).kneighbors(X[:50])
HammingNeighbors(9, rerank="asymmetric", n_candidates=None, metric="cosine").fit(
    short, decoder=book).kneighbors(short[:50], vectors=X[:50])
=> AsymmetricNeighbors(9, metric="cosine").fit(short, decoder=book).kneighbors(X[:50])
HammingNeighbors(9, rerank="asymmetric", metric="inner_product").fit(
    short, decoder=book).remove(range(0, 90, 3)).kneighbors(short[:50], vectors=X[:50])
=> AsymmetricNeighbors(9, n_candidates=100, metric="inner_product").fit(
    short, decoder=book).remove(range(0, 90, 3)).kneighbors(X[:50], codes=short[:50])
HammingNeighbors(9, rerank="vectors", n_candidates=40).fit(
    short, vectors=X).kneighbors()
=> AsymmetricNeighbors(9, n_candidates=40).fit(short, vectors=X).kneighbors()
HammingNeighbors(9, rerank="vectors", metric="inner_product").fit(
    short, vectors=X).kneighbors(short[:50], vectors=X[:50])
=> AsymmetricNeighbors(9, n_candidates=100, metric="inner_product").fit(
    short, vectors=X).kneighbors(X[:50], codes=short[:50])
HammingNeighbors(9, rerank="vectors", metric="cosine").fit(
    short, vectors=X).partial_fit(short[:9], vectors=X[:9]).kneighbors(
    short[:50], vectors=X[:50], ids=range(0, 400, 2))
=> AsymmetricNeighbors(9, n_candidates=100, metric="cosine").fit(
    short, vectors=X).partial_fit(short[:9], vectors=X[:9]).kneighbors(
    X[:50], codes=short[:50], ids=range(0, 400, 2))
vectors(HashedNeighbors(ITQHash(16, random_state=0)).fit(X, y))
vectors(HashedNeighbors(ITQHash(16, random_state=0), HammingNeighbors(
    9, rerank="vectors", n_candidates=40)).fit(X, y))
=> vectors(HashedNeighbors(ITQHash(16, random_state=0), AsymmetricNeighbors(
    9, n_candidates=40), keep_vectors=True).fit(X, y))
vectors(HashedNeighbors(ITQHash(16, random_state=0), HammingNeighbors(
    9, rerank="asymmetric", n_candidates=None)).fit(X, y))
=> vectors(HashedNeighbors(ITQHash(16, random_state=0), AsymmetricNeighbors(9)).fit(
    X, y))
vectors(HashedNeighbors(SGHEncoder(16, **FEW), HammingNeighbors(
    9, rerank="asymmetric", metric="cosine")).fit(X, y).partial_fit(Q, y[:100]))
=> vectors(HashedNeighbors(SGHEncoder(16, **FEW), AsymmetricNeighbors(
    9, n_candidates=100, metric="cosine")).fit(X, y).partial_fit(Q, y[:100]))
vectors(HashedNeighbors(ITQHash(16, random_state=0), HammingNeighbors(
    9, rerank="asymmetric"), decoder=LinearDecoder(n_alternations=2)).fit(X, y))
=> vectors(HashedNeighbors(ITQHash(16, random_state=0), AsymmetricNeighbors(
    9, n_candidates=100), decoder=LinearDecoder(n_alternations=2)).fit(X, y))
vectors(reloaded(HashedNeighbors(SGHEncoder(16, **FEW), HammingNeighbors(
    9, rerank="vectors")).fit(X, y)))
=> vectors(reloaded(HashedNeighbors(SGHEncoder(16, **FEW), AsymmetricNeighbors(
    9, n_candidates=100), keep_vectors=True).fit(X, y)))

# Codes, noise, gradients
[pack_bits(bits[:, :m]) for m in (1, 8, 37)], unpack_bits(packed, 61)
hamming_distances(packed[:50], packed), spherical_hamming_distances(packed[:50], packed)
bits_to_signs(bits), signs_to_bits(bits_to_signs(bits)), packed_to_words(packed)
bit_strings(packed[:9]), to_int8(packed, "offset"), to_int8(packed, "view")
reverse_bits(packed), exported(packed[:9])
[noise_of(noise(scale)) for noise in (Logistic, Normal, Triangular, Uniform)
    for scale in (1.0, 0.4)]
[gradient_of(g) for g in (ARM(3), DisARM(2), BitFlip(2), Exact())]
[gradient_of(g) for g in (LocalExpectation(), Reinforce(), MuProp(), ReinforceLOO(3))]
[gradient_of(g) for g in (Reinforce("row"), MuProp("row"), BitFlip(1))]
[gradient_of(g) for g in (ZGR(), GumbelSoftmax(0.5), STGumbel(0.5), MeanField())]
[gradient_of(g) for g in (StraightThrough(), StraightThrough("quadratic"))]
[gradient_of(g) for g in (DeterministicST(), IdentityST(), HardST())]
[gradient_of(g, units=BernoulliUnits("normal", "pm1")) for g in
    (ARM(3), Exact(), LocalExpectation(), ReinforceLOO(3), ZGR(), StraightThrough())]
report(quadratic, logits, ["st", "zgr", "arm"])
report(StochasticAutoencoderHash(8, **SMALL).fit(S), X[:40], ["st", "arm"],
    batch_size=20)
report(SBNClassifier((4, 3), **FEW).fit(X, y), X[:40], ["st", "psa", "arm", "adf"],
    y=y[:40])
report(SBNClassifier((24, 16), **FEW).fit(X, y), X[:40],
    ["zgr", "local_expectation"], y=y[:40], reference_samples=20)

# Metrics
[mean_average_precision_score(*labelled, k=k, average=None) for k in (None, 1, 30)]
[mean_average_precision_score(*labelled, k=30, normalize=n, ties="index")
    for n in ("min", "relevant", "retrieved")]
mean_average_precision_score(*labelled, k=30, normalize="relevant")
mean_average_precision_score(*rare)
[precision_at_k_score(*labelled, k=[5, 50], ties=t, average=None)
    for t in ("expected", "index")]
[recall_at_k_score(*labelled, k=[5, 50], ties=t, average=None)
    for t in ("expected", "index")]
[ndcg_at_k_score(*multi, k=k, gain=g, ties=t, average=None) for k in (None, 10)
    for g in ("linear", "exponential") for t in ("expected", "index")]
[precision_within_radius_score(*labelled, radius=r, empty_ball=e, average=None,
    return_coverage=True) for r in (0, 4) for e in ("zero", "skip")]
[neighbor_recall_score(queries, bits, true_neighbors(Q, X, 5) % 400, n_retrieved=n,
    ties=t, average=None) for n in (5, 100) for t in ("expected", "index")]
mean_average_precision_score(*own, exclude_self=True), ndcg_at_k_score(*own,
    exclude_self=True), hamming_precision_recall_curve(*own, exclude_self=True)
mean_average_precision_score(pack_bits(queries), packed, *labelled[2:], packed=True)
hamming_distance_histogram(*labelled), hamming_precision_recall_curve(*multi)
[true_neighbors(Q, X, metric=m) for m in ("euclidean", "cosine", "inner_product")]
true_neighbors(X, exclude_self=True), true_neighbors(S, S)
class_distances(bits, bits[:, 0]), separability_score(*labelled)
[quantization_error_score(X / 16 - 0.5, kind=k) for k in ("absolute", "squared")]
=> [quantization_error(X / 16 - 0.5, kind=k) for k in ("absolute", "squared")]
[score(ITQHash(16, random_state=0).fit(X), X, y) for score in (retrieval_scorer,
    make_retrieval_scorer(precision_at_k_score, k=9), make_neighbor_recall_scorer())]
make_neighbor_recall_scorer(5, 20, "cosine")(ITQHash(16, random_state=0).fit(X), Q)

# Audit and data
audit(X, y, n_bits=[8, 16], n_queries=50, random_state=0).to_dict()
audit(S, n_bits=[16], methods=["itq", "lsh"], metric="cosine", k=5, rescore=20,
    sample=300, n_queries=50, target_recall=0.5, random_state=0).to_dict()
vars(load_digits_retrieval())
"""

FEW = {"max_epochs": 3, "random_state": 0}
SMALL = FEW | {"hidden_layer_sizes": (32,), "dropout": 0.1}
SHORT = FEW | {"hidden_layer_sizes": (32,)}
DUAL = SHORT | {"warmup_epochs": 1}
THREADS = (
    "LOKY_MAX_CPU_COUNT",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
# What differs from run to run.
TIMES = {"dur", "fit_seconds", "encode_per_second", "search_per_second"}

# The names that cases know: those of the package, and the data.
names = SimpleNamespace()


def make_data():
    from sklearn.datasets import load_digits
    from sklearn.neighbors import kneighbors_graph
    from skorch.callbacks import EarlyStopping

    digits, labels = load_digits(return_X_y=True)
    X, y, rng = digits[:400], labels[:400], np.random.RandomState(0)
    pairs = rng.randint(len(X), size=(300, 2))
    centers = rng.randint(2, size=(40, 61))
    bits = centers[rng.randint(40, size=1500)] ^ (rng.random_sample((1500, 61)) < 0.1)
    bits[200:260] = bits[:60]
    bits, queries = bits[:1400].astype(np.uint8), bits[1400:].astype(np.uint8)
    nearby = bits[:, :3].sum(axis=1), queries[:, :3].sum(axis=1)
    return {
        "EarlyStopping": EarlyStopping,
        "kneighbors_graph": kneighbors_graph,
        "logits": make_logits(),
        "X": X,
        "Q": digits[400:500],
        "y": y,
        "Y": np.column_stack([y % 2 == 0, y < 5, y % 3 == 0]).astype(int),
        "S": sparse.csr_array(X),
        "U": X / 16,
        "word": np.array([*"abcdefghij"])[y],
        "unknown": np.where(np.arange(len(y)) % 3, y, -1),
        "weights": rng.random_sample(len(y)),
        "images": np.kron(X.reshape(-1, 8, 8), np.ones((4, 4))).reshape(len(X), -1),
        "pairs": pairs,
        "similar": (y[pairs[:, 0]] == y[pairs[:, 1]]).astype(int),
        "row_ids": np.arange(len(X)),
        "bits": bits,
        "queries": queries,
        "short": (X[:, 20:36] > X[:, 20:36].mean(axis=0)).astype(np.uint8),
        "book": (rng.standard_normal((16, 64)), rng.standard_normal(64)),
        "packed": np.packbits(bits, axis=1),
        "labelled": (queries, bits, nearby[1], nearby[0]),
        "rare": (queries, bits, nearby[1], np.minimum(nearby[0], 2)),
        "multi": (queries, bits, queries[:, :5], bits[:, :5]),
        "own": (bits[:300], bits[:300], nearby[0][:300], nearby[0][:300]),
    }


def warm(solver="prox", **params):
    """Return a loss of DualHash with a short warm-up."""
    return names.DualHashLoss(solver, **{"warmup_epochs": 1} | params)


def codes(encoder, X=None):
    """Return what a fitted encoder gives, and what it learned."""
    X = names.X if X is None else X
    results = learned(encoder)
    for method in ("transform", "transform_packed", "decision_function"):
        results[method] = getattr(encoder, method)(X)
    for method in ("reconstruction_error", "bound"):
        if hasattr(encoder, method):
            results[method] = getattr(encoder, method)(X)
    if hasattr(encoder, "inverse_transform"):
        results["decoded"] = encoder.inverse_transform(results["transform"])
    return results


def classes(model, X=None):
    X = names.X if X is None else X
    results = learned(model)
    for mode in ("ensemble", "det"):
        model.set_params(predict_mode=mode)
        for method in ("predict", "predict_proba", "decision_function"):
            results[mode, method] = getattr(model, method)(X)
    return results | {"transform": model.transform(X)}


def learned(estimator):
    """Return attributes of the fit: losses of epochs, arrays, numbers."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and isinstance(value, (list, np.ndarray, int, float))
    }


def decoder(estimator):
    X, bits = names.X, names.short
    refined = estimator.fit(X, bits).refine(X, bits)
    errors = estimator.reconstruction_error(X, refined)
    return refined, errors, estimator.inverse_transform(bits), estimator.refine(X)


def reloaded(estimator):
    with tempfile.TemporaryDirectory() as folder:
        estimator.save(f"{folder}/saved")
        return names.load(f"{folder}/saved")


def loaded(encoder):
    return codes(reloaded(encoder))


def search(index, n_bits=61):
    queries = names.queries[:, :n_bits]
    return {
        "nearest": index.kneighbors(queries),
        "own": index.kneighbors(),
        "within": index.radius_neighbors(queries),
        "graphs": [index.kneighbors_graph(queries), index.radius_neighbors_graph()],
        "transform": index.transform(queries),
        "loaded": reloaded_index(index).kneighbors(queries),
    }


def reloaded_index(index):
    with tempfile.TemporaryDirectory() as folder:
        index.save(f"{folder}/saved")
        return type(index).load(f"{folder}/saved")


def filtered(index):
    queries, mask = names.queries, np.arange(1400) % 3 == 0
    return [
        find(queries, **which)
        for find in (index.kneighbors, index.radius_neighbors)
        for which in ({"mask": mask}, {"ids": range(0, 1400, 5)}, {"ids": range(9)})
    ]


def changed(index):
    """Search as codes come, go, and are saved."""
    bits, queries = names.bits, names.queries
    ids = np.char.add("code", np.arange(1400).astype(str))
    index.fit(bits[:1000], ids=ids[:1000]).remove(ids[:600:2])
    results = [index.kneighbors(queries, return_ids=True)]
    index.partial_fit(bits[1000:], ids=ids[1000:]).remove(ids[1000:1100])
    results += [index.kneighbors(queries), index.radius_neighbors(queries)]
    results += [reloaded_index(index).kneighbors(queries, return_ids=True)]
    return [*results, index.compact().kneighbors(queries), index.kneighbors()]


def vectors(index):
    Q = names.Q
    results = [index.kneighbors(Q), index.kneighbors(Q, ids=range(100))]
    return [*results, index.transform(Q), index.score(Q, names.y[:100])]


def exported(packed):
    file = io.StringIO()
    names.to_pgvector(packed, file, n_bits=61)
    return file.getvalue(), names.to_arrow(packed, n_bits=61).to_pydict()


def noise_of(noise):
    import torch

    a, p = torch.linspace(-5, 5, 41), torch.linspace(0.01, 0.99, 41)
    drawn = noise.sample((50,), torch.Generator().manual_seed(0))
    functions = noise.cdf, noise.pdf, noise.log_odds, noise.hazard
    return [f(a) for f in functions], noise.icdf(p), drawn, noise.variance


def make_logits():
    import torch

    return 2 * torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


def quadratic(values):
    return (values.sum(dim=-1) - 2).square() + values[..., 0] * values[..., 1]


def gradient_of(estimator, **options):
    import torch

    logits, generator = make_logits().requires_grad_(), torch.Generator().manual_seed(1)
    rows = torch.arange(len(logits))
    curvature = torch.ones(logits.shape[1])
    losses = [
        estimator.surrogate(
            quadratic, logits, generator, rows=rows, curvature=curvature, **options
        )
        for _ in range(2)
    ]
    return losses, torch.autograd.grad(sum(losses).sum(), logits)


def report(model, X, estimators, **options):
    options = {"n_trials": 10, "random_state": 0} | options
    return names.gradient_report(model, X, estimators, **options).to_dict()


def own_module(n_features, n_bits):
    from torch import nn

    return nn.Sequential(nn.Linear(n_features, 24), nn.Tanh(), nn.Linear(24, n_bits))


def own_images(n_features, n_bits):
    from torch import nn

    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, n_bits))


def own_network(n_features, n_classes):
    linear = names.BinaryLinear
    layers = [linear(n_features, 20, noise="uniform"), linear(20, 12, batch_norm=True)]
    return names.StochasticBinaryNetwork(layers, names.RealLinear(12, n_classes))


def read_cases():
    """Return the sources of each case, the newest first."""
    cases = []
    for line in CASES.splitlines():
        if line.startswith("=>"):
            cases[-1].insert(0, line[2:])
        elif line.startswith(" "):
            cases[-1][0] += f" {line.strip()}"
        elif line and not line.startswith("#"):
            cases.append([line])
    return cases


def arrays_of(value, name=""):
    """Yield the names and arrays of a result of any kind."""
    if type(value).__module__.startswith("torch"):
        value = value.detach().numpy()
    if sparse.issparse(value):
        value = [value.indptr, value.indices, value.data]
    if isinstance(value, dict):
        items = [(key, value[key]) for key in value.keys() - TIMES]
    elif isinstance(value, (list, tuple)) or np.ndim(value) and value.dtype.hasobject:
        items = enumerate(value)
    else:
        array = np.asarray(value)
        yield name, np.asarray(str(value)) if array.dtype.hasobject else array
        return
    for key, item in items:
        yield from arrays_of(item, f"{name} {key}")


def evaluate(sources):
    """Return the arrays of a case, by the first of its sources that does not raise."""
    errors = []
    for source in sources:
        try:
            return dict(arrays_of(eval(source, globals() | vars(names))))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return {"raised": np.asarray(errors[0])}


def import_names():
    # An editable install of another checkout would lend its modules to this one.
    sys.meta_path[:] = [f for f in sys.meta_path if "Editable" not in str(f)]
    for line in (OLD_IMPORTS + NEW_IMPORTS).splitlines():
        try:
            exec(line, vars(names))
        except ImportError:
            pass


def collect(only, path):
    """Evaluate cases with the package that is there, into a file."""
    import_names()
    vars(names).update(make_data())
    results = {}
    for i, sources in enumerate(read_cases()):
        if only in sources[-1]:
            results |= {f"{i}|{name}": a for name, a in evaluate(sources).items()}
            print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    np.savez(path, **results)


def run(commit, only):
    """Return the results of all cases at a commit: a dict of arrays for each."""
    folder = Path(tempfile.gettempdir(), "skhash-same-codes")
    package = checkout(commit, folder)
    one_thread = dict.fromkeys(THREADS, "1")
    paths = {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(folder / "numba")}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "results.npz")
        # -P: other scripts in this folder are no modules.
        subprocess.run(
            [sys.executable, "-P", "-W", "ignore", __file__, "--collect", path]
            + [commit, "--only", only],
            env=os.environ | one_thread | paths,
            check=True,
        )
        with np.load(path) as file:
            results = {}
            for name, array in file.items():
                number, _, rest = name.partition("|")
                results.setdefault(int(number), {})[rest] = array
    return results


def checkout(commit, folder):
    """Return a folder with the package at this commit, made where it is not there."""
    git = partial(subprocess.run, cwd=Path(__file__).parents[2], check=True)
    git = partial(git, stdout=subprocess.PIPE)
    sha = git(["git", "rev-parse", f"{commit}^{{commit}}"], text=True).stdout.strip()
    if not (folder / sha).exists():
        folder.mkdir(exist_ok=True)
        archive = io.BytesIO(git(["git", "archive", sha, "skhash"]).stdout)
        unfinished = tempfile.mkdtemp(dir=folder)
        tarfile.open(fileobj=archive).extractall(unfinished, filter="data")
        os.rename(unfinished, folder / sha)
    return folder / sha


def digest(arrays):
    """Return the start of the hash of names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return total.hexdigest()[:12]


def compare(old, new):
    """Return a word on the arrays of one case, in two commits."""
    for arrays in (new, old):
        if "raised" in arrays:
            return f"raised {arrays['raised']}"
    if digest(old) == digest(new):
        return f"same {digest(new)}"
    common = old.keys() & new.keys()
    differences = {name: difference(old[name], new[name]) for name in common}
    worst = max(differences, key=differences.get, default=None)
    if old.keys() != new.keys() and not any(differences.values()):
        return f"other names {sorted(old.keys() ^ new.keys())}"
    return f"different by {differences[worst]:.3g} in{worst}"


def difference(a, b) -> float:
    """Return the largest of an entry, infinite where arrays are no alike numbers."""
    if (a.dtype, a.shape) != (b.dtype, b.shape) or a.dtype.kind not in "biuf":
        return 0.0 if np.array_equal(a, b) else np.inf
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(float) - b.astype(float))
    return np.nanmax(apart, initial=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default="HEAD")
    parser.add_argument("--only", default="", help="cases whose source has this text")
    parser.add_argument("--collect", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.collect:
        return collect(arguments.only, arguments.collect)
    old, new = (run(c, arguments.only) for c in (arguments.old, arguments.new))
    cases, words = read_cases(), {i: compare(old[i], new[i]) for i in old}
    for i, word in words.items():
        print(f"{word:20} {cases[i][0]}")
    n_same = sum(word.startswith("same") for word in words.values())
    print(f"{n_same} of {len(words)} cases are the same")
    return n_same != len(words)


if __name__ == "__main__":
    sys.exit(main())
