"""The flags where the layer that an attack on a known start reads shows no image."""

FIRST_MOVED = "its first layer was trained and sees the images: use kkt-delta"
FIRST_STAYED = "its first layer was not trained and shows no image: use kkt-delta-features"
LAST_ALONE = (
    "only the last layer moved: its difference is one sum of features a class, not one an image; try projection"
)

UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
STILL = "the start is the released weights themselves: nothing was trained between them"
