"""Studies: every file here that defines `STUDIES`, a tuple of `attacks.studies.base.Study`, is found by the registry."""
