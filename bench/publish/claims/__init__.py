"""The verb `verify`: whether the stored tables say what the READMEs and the findings say."""

from bench.publish.claims.check import rows_of, verify, weights_of
from bench.publish.claims.entries import Claim, read_claims
from bench.publish.claims.finding import ClaimOutcome, Finding
from bench.publish.claims.tables import LEADERBOARD, Tables

__all__ = [
    "LEADERBOARD",
    "Claim",
    "ClaimOutcome",
    "Finding",
    "Tables",
    "read_claims",
    "rows_of",
    "verify",
    "weights_of",
]
