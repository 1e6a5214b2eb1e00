"""Defences: what an owner can do in training or on release so that less of the data can be reconstructed."""
