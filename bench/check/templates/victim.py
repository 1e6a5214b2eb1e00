"""A network and its training images, as an example."""

from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

VICTIMS = (
    VictimSpec(
        name="example",
        dataset="faces",  # or NAME, for a NAME.npz in the data folder
        n=20,
        architecture=MLPSpec(hidden=(100, 100)),
        training=NormalizedDescent(steps=500),
    ),
)
