"""The equations that attacks and the victims' cards share, one file each."""
