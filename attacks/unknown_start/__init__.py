"""The start of a training that was not told: its seed is guessed, or it is estimated from its distribution."""

UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
