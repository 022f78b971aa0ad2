"""The one door to scikit-learn's private names.

Nothing else in skhash reads a private name of scikit-learn, so upstream changes are
handled here.
"""

from functools import partial, wraps

from sklearn import base
from sklearn.utils import _param_validation, validation

from skhash.utils.torch import torch_as_imported

check_sample_weight = validation._check_sample_weight
HasMethods = _param_validation.HasMethods
Interval = _param_validation.Interval
Options = _param_validation.Options
StrOptions = _param_validation.StrOptions
validate_parameter_constraints = _param_validation.validate_parameter_constraints
# scikit-learn's functions check their arguments, and then call these unchecked.
validate_params = partial(
    _param_validation.validate_params, prefer_skip_nested_validation=True
)


class CodesOutMixin(base.ClassNamePrefixFeaturesOutMixin, base.TransformerMixin):
    """Base of transformers whose results have another type than what they are given.

    Columns of results are numbered after the name of the class.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def fit_context(**options):
    """Decorate a method that fits: all or nothing, besides what scikit-learn's does.

    Inside, the defaults of torch are those of its import. Where the method raises, the
    estimator stays as before. That is for anything that is raised, an interrupt from
    the keyboard too. Fitted attributes are replaced, and what they hold is not changed
    in place.
    """
    checked = base._fit_context(**options)
    return lambda method: _all_or_nothing(checked(method))


def _all_or_nothing(method):
    @wraps(method)
    def fits(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            with torch_as_imported():  # no decorator: warnings count the frames
                return method(self, *args, **kwargs)
        except BaseException:
            for name in vars(self).keys() - before.keys():
                delattr(self, name)
            vars(self).update(before)  # at once: other threads may search meanwhile
            raise

    return fits
