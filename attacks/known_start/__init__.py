"""What a known start of the training gives away: the machinery of `kkt-delta`."""
