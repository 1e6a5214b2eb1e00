"""Networks trained as people train: the loop over torch.optim, the start that is kept, and what it shows."""
