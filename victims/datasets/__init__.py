"""Datasets: where the training images come from and which of them a victim learns.

`load` finds a dataset (shipped with a library, an npz file, or downloaded), `select` takes the papers' balanced
selection of it, and `fingerprint` tells whether the data on disk is still the same.
"""

from victims.dataset_files import fingerprint
from victims.datasets.raw import RawDataset
from victims.datasets.selection import GROUPS, Split, select
from victims.datasets.sources import load

__all__ = ["GROUPS", "RawDataset", "Split", "fingerprint", "load", "select"]
