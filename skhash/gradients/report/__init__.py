"""Measurements of gradient estimators on a model: `gradient_report`.

A problem draws gradients (`_problems`), trials keep a few numbers of each (`_trials`),
and the result is a row of measurements for each estimator (`_result`).
"""
