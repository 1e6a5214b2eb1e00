"""Victims of the informed adversary (Balle, Cherubin, Hayes 2022), who knows all records but one: D_- but not z.

A victim is T models at once, model i trained by the algorithm A on D_- and the target z_i; each is attacked alone.
"""
