"""Named victims: every file here that defines `VICTIMS`, a tuple of VictimSpec, is found by the registry."""
