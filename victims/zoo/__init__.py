"""Named victims: the registry finds every file here that defines `VICTIMS`, a tuple of descriptions of victims."""
