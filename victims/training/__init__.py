"""Training algorithms, one a file, and the loop that runs, reports and checkpoints them."""
