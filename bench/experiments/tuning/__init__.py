"""The search for an attack's hyperparameters: trials in a folder that processes share, and the verb `tune`."""
