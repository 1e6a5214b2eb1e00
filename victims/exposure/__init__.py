"""The exposure card: what a trained network gives away at a look, in seconds and without an attack.

All but its last figures are read off the weights, and the start if it is known. They decide which reconstruction
attacks have a chance: those that need a stationary point, those that need the start, or none.
"""
