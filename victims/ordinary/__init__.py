"""Networks trained as people train: the loop over torch.optim, the start that is kept, and what it shows."""

LEAST_COSINE = 0.2
"""Outside of the span of the difference, the true start's cosine with W1 is larger than this; a wrong seed's is some
thousandths."""
