"""Victims: datasets, architectures, training algorithms, and the table of named victims."""
