"""Networks trained as people train: the loop over torch.optim, the start that is kept, and what it shows."""

LEAST_COSINE = 0.2
"""The cosine of W1 and its start outside of the span of the difference is larger for the true start; that of a wrong
seed is some thousandths."""
