"""Experiments over many runs: studies, tuning, privacy bounds."""
