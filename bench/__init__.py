"""The harness: it knows no attack and no victim by name."""

__version__ = "0.1.0"
