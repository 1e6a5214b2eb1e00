"""Your own model as a victim: a torch module, its trained weights, and images or rows that it was trained on.

Nothing is trained and nothing is unpickled: weights are safetensors, or a torch file that holds tensors alone.
"""

from victims.released.description import released
from victims.released.loading import load
from victims.released.module import answering

__all__ = ["answering", "load", "released"]
