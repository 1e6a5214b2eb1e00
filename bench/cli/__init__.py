"""The command line: verbs, their arguments, and what they print."""
