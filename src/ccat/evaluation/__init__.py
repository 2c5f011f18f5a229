"""Evaluation: from what a classifier answered to errors with rejection. NumPy only, no files.

`outcome` holds what a classifier made of examples and the worst of several attempts, `rates` the
definition of every metric, `metrics` the same as plain functions:

    clean = metrics.outcome(probabilities, labels)
    tau = threshold(calibration, tpr=0.99)
    ROBUST_ERROR(clean, worst(clean, attempts)).at(tau)

`intervals` says how sure a rate is, by the resamples of `resampling`. `results` are the types that
the other rooms fill in and read: `evaluate` turns `RunOutcomes` into an `Evaluation` at a
threshold, `compare` pairs two runs image by image. `promise` chooses a threshold with a promised
risk, and `watch` compares the rejection rate in use with the calibrated one. `proposition` solves
the paper's Proposition 1.
"""

from ccat.evaluation import metrics

__all__ = ["metrics"]
