"""Experiments over many runs: plans, studies, tuning, audits, privacy bounds."""
