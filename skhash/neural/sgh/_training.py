"""The training of `SGHEncoder`: from its parameters to a module, and back."""

import numpy as np

from skhash.algebra._projection import column_means
from skhash.algebra._scale import column_scales, total_scale
from skhash.neural._start import sample_rows, starting_directions
from skhash.neural.sgh._start import SGHStart, closed_form_decoder, sgh_start
from skhash.training import BaseNeuralHasher


class SGHTraining(BaseNeuralHasher):
    """Makes the module of an `SGHEncoder`, trains it and reads its parameters.

    The module works on standardised data; fitted attributes are in the data's unit.
    """

    def _code_values(self):
        return {"01": (0.0, 1.0), "pm1": (-1.0, 2.0)}[self.coding]

    def _make_module(self, X, y, device, generator, rows):
        X = X if rows is None else X[rows]
        mean = column_means(X)
        scale = total_scale(X, mean)
        sample = sample_rows(X, generator)
        directions = starting_directions(
            sample, mean, self.n_bits, self.init, device, generator
        )
        start = sgh_start(X, mean, scale, directions, *self._code_values(), device)
        if not self.fit_prior:
            start.prior_logits = np.zeros(self.n_bits)
        if self.scale == "feature":
            start.add_feature_scale(column_scales(X, mean, scale))
        elif self.scale == "latent":
            start.add_latent_scales()
        # Labels may all be unknown as yet.
        if y is not None or self.pair_source == "labels":
            start.pairs = self._pair_likelihood()
        return self._module(mean, scale, start)

    def _make_net(self, X, y, random_state, restore=False):
        net = super()._make_net(X, y, random_state, restore)
        if self.averaging != "last":
            from skhash.neural.sgh._iterates import KeptIterates

            seed = random_state.randint(np.iinfo(np.int32).max)
            net.module_.kept = KeptIterates(self.averaging, seed)
        return net

    def _restore_module(self):
        low, step = self._code_values()
        codebook = self.codebook_ / (step * self.scale_)
        start = SGHStart(
            weight=self.components_.T * self.scale_,
            bias=self.intercept_,
            codebook=codebook,
            offset=(self.offset_ - self.mean_) / self.scale_
            - low * codebook.sum(axis=0),
            prior_logits=self.prior_logits_,
            log_rho=np.log(self.rho_ / self.scale_),
        )
        if self.scale == "feature":
            start.add_feature_scale(self.feature_scale_ / self.scale_)
        elif self.scale == "latent":
            unit = self.scale_ / self.scale_std
            start.scale_weight = self.scale_components_.T * unit
            start.scale_bias = self.scale_intercept_ / self.scale_std
        if self.pair_scale_ is not None:
            start.pairs = self._pair_likelihood(self.pair_scale_, self.pair_offset_)
        return self._module(self.mean_, self.scale_, start)

    def _pair_likelihood(self, *values):
        from skhash.neural.sgh._pair_likelihood import PairLikelihood

        return PairLikelihood(self.n_bits, *values)

    def _module(self, mean, scale, start):
        from skhash.neural.sgh._module import SGHModule

        return SGHModule(
            mean=mean,
            scale=scale,
            **vars(start),
            coding=self.coding,
            gradient=self.gradient,
            kl_weight=self.kl_weight,
            weight_penalty=self.weight_penalty,
            pair_weight=self.pair_weight,
            scale_std=self.scale_std,
            lr_schedule=self.lr_schedule,
            frozen=[
                name
                for name, is_fitted in [
                    ("log_rho", self.fit_scale),
                    ("offset", self.fit_mean),
                    ("prior_logits", self.fit_prior),
                ]
                if not is_fitted
            ],
        )

    def _fit_codes(self, X, y, random_state):
        super()._fit_codes(X, y, random_state)
        if self.refit_decoder and self.fit_mean and self.scale == "none":
            split = self.net_.split
            self._refit_decoder(X if split is None else X[split.train])

    def _refit_decoder(self, X):
        import torch

        module = self.net_.module_
        result = module.result
        decoder = closed_form_decoder(
            X,
            self.mean_,
            self.scale_,
            result["weight"].cpu().numpy(),
            result["bias"].cpu().numpy(),
            *self._code_values(),
            self.net_.device,
            penalty=self.weight_penalty * float(torch.exp(2 * result["log_rho"])),
        )
        for name, value in decoder.items():
            if getattr(module, name).requires_grad:
                result[name].copy_(
                    torch.from_numpy(np.asarray(value, dtype=np.float32))
                )
        self._read_out(module, None)

    def _read_out(self, module, values):
        # The result of the training need not be its last iterate.
        result = module.result.items()
        values = {name: value.cpu().numpy().copy() for name, value in result}
        self.mean_, self.scale_ = module.mean, module.scale
        scale = np.float32(self.scale_)
        self.components_ = np.ascontiguousarray(values["weight"].T) / scale
        self.intercept_ = values["bias"]
        codebook = values["codebook"]
        if self.scale == "feature":
            feature_scale = np.exp(values["log_feature_scale"])
            self.feature_scale_ = feature_scale * scale
            codebook = codebook * feature_scale
        elif self.scale == "latent":
            unit = np.float32(self.scale_std)
            weight = np.ascontiguousarray(values["scale_weight"].T)
            self.scale_components_ = weight * (unit / scale)
            self.scale_intercept_ = values["scale_bias"] * unit
        low, step = self._code_values()
        self.codebook_ = codebook * np.float32(step * self.scale_)
        offset = values["offset"] + low * codebook.sum(axis=0)
        self.offset_ = (self.mean_ + self.scale_ * offset).astype(np.float32)
        self.prior_logits_ = values["prior_logits"]
        self.rho_ = float(np.exp(values["log_rho"]) * self.scale_)
        self.pair_scale_, self.pair_offset_ = (
            None if module.pairs is None else float(values[f"pairs.{name}"])
            for name in ("scale", "offset")
        )
