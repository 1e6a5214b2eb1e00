"""The verb `verify`: whether the stored tables say what the READMEs say."""

from bench.publish.claims.check import Finding, Outcome, Tables, rows_of, verify
from bench.publish.claims.entries import Claim, read_claims

__all__ = ["Claim", "Finding", "Outcome", "Tables", "read_claims", "rows_of", "verify"]
