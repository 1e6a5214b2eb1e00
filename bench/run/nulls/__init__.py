"""Null controls: which a row has, and what they get."""
