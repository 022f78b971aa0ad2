"""Measurements of gradient estimators on a model: `gradient_report`.

A problem draws gradients (`_problems`), trials keep a few numbers of each (`_trials`),
and the result is a row of measurements for each estimator (`_result`).
"""

from skhash.gradients.report._result import GradientReport
from skhash.gradients.report._run import gradient_report

__all__ = ["GradientReport", "gradient_report"]
