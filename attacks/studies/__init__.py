"""The studies of the papers: the registry finds every file here that defines `STUDIES`, a tuple of `base.Study`."""
