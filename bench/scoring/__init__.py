"""Scores of candidates against the training set: metrics of pairs, matching, and protocols that combine them."""

from bench.scoring.confidence import ConfidenceCurve, confidence_curve
from bench.scoring.metrics import METRIC_SUITE, METRICS, Evidence, Metric, measure
from bench.scoring.protocols import PROTOCOLS, Matcher, Protocol, Truth, judge, score
from bench.scoring.scores import Scores

__all__ = [
    "METRICS",
    "METRIC_SUITE",
    "PROTOCOLS",
    "ConfidenceCurve",
    "Evidence",
    "Matcher",
    "Metric",
    "Protocol",
    "Scores",
    "Truth",
    "confidence_curve",
    "judge",
    "measure",
    "score",
]
