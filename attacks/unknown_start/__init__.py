"""The start of a training that was not told: its seed is guessed, or it is estimated from its distribution."""

from attacks.knowledge import Threat

NO_UPDATE = "no low-rank update: its layers moved by full ranks, or its biases moved"
UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
THREATS = {"known": Threat.START, "guess": Threat.SEED, "uniform": Threat.WEIGHTS, "forgotten": Threat.WEIGHTS}
"""Who can mount an attack, by how it has the start: told, guessed, estimated, or forgotten by the training."""
