"""The verb `verify`: whether the stored tables say what the READMEs say."""

from bench.publish.claims.check import Finding, Outcome, verify
from bench.publish.claims.entries import Claim, read_claims

__all__ = ["Claim", "Finding", "Outcome", "read_claims", "verify"]
