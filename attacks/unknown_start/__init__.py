"""What a training has added to a start that nobody knows, but whose distribution is known."""
