"""Studies: every file here that defines `STUDIES`, a tuple of `attacks.study.Study`, is found by the registry."""
