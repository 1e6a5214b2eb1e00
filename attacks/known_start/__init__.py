"""The machinery of attacks on networks whose start is known or guessed."""
