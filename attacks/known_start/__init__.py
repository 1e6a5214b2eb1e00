"""Attacks on networks whose start is known or guessed."""
