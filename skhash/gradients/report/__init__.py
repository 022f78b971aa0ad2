"""How good gradient estimators are on a model: `gradient_report`.

A problem draws gradients (`_problems`), trials keep a few numbers of each (`_trials`),
a summary makes measurements of these (`_summary`).
"""

from skhash.gradients.report._result import GradientReport, GradientRow
from skhash.gradients.report._run import gradient_report

__all__ = ["GradientReport", "GradientRow", "gradient_report"]
