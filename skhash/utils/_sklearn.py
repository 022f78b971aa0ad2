"""The one door to scikit-learn's private names.

Nothing else in skhash imports a private scikit-learn module, so upstream changes are
handled here.
"""

from functools import partial

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils._param_validation import validate_params as _validate_params
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "validate_parameter_constraints",
    "validate_params",
]

# scikit-learn's functions check their arguments, and then call these unchecked.
validate_params = partial(_validate_params, prefer_skip_nested_validation=True)
