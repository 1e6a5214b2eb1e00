"""Random crops: a training that moved images saw parts of them, with black beside."""
