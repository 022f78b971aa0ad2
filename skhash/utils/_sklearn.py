"""The one door to scikit-learn's private names.

Nothing else in skhash reads a private name of scikit-learn, so upstream changes are
handled here.
"""

from functools import partial

from sklearn import base
from sklearn.utils import _param_validation, validation

fit_context = base._fit_context
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
