"""What `cocktail-party` computes: the images of a span as its independent components.

A training leaves in the first layer a sum over the training images, whatever the loss, the order of the batches, the
momentum and the schedule:

    L = W1 - c W1(0) = sum_i D_i x_i'.

So the images span the rows of L, and each is an unknown mixture B of a basis V of this span, X = B V: blind source
separation (the cocktail party problem), as Kariyappa et al. 2023 have seen in one aggregated gradient. The mixture
whose responses to small filters are the most independent is found without the network
(`attacks.source_separation`). That tells neither the length of an image nor its sign. The network tells the sign:
errors D_i pass where neurons fire, and biases add up as sum_i D_i (`orientation`).

Where pictures are too much alike for that, the network tells more (`rounds`): a mixture says not only what the images
are but also what their errors are, and errors that are likely come back from its outputs (`errors`). Both together have
a likelihood (`likelihood`).

Behind convolutions the first fully connected layer sees feature maps, and these are separated likewise, in rounds or
by filters alone (`maps`; `pictures` has what differs). Then images are searched that have the maps, each by itself or
all together (`images`).
"""
