"""Attacks: one file each, named as on the command line."""
