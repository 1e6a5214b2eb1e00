"""Scores of candidates against the training set: metrics of pairs, matching, and protocols that combine them."""

from bench.scoring.confidence import ConfidenceCurve, confidence_curve
from bench.scoring.metrics import METRIC_SUITE, METRICS, Evidence, Metric, measure
from bench.scoring.protocols import PROTOCOLS, Protocol
from bench.scoring.scores import Matcher, Scores, Truth, judge, score

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
