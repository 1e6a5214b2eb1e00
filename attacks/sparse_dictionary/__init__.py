"""What `neuron-differences` computes: neurons as sums over images, their sparse codes, and the images as atoms.

At a stationary point of a network with one output, row j of [W1, b1] is a sum over the training images,

    [w_j, b_j] = sum_i l_i v_ij g_ij [x_i, 1],

with the gate g_ij of neuron j and v_i = (w3 * k_i) W2, the error that comes back through the gates k_i of layer 2
(Haim et al. 2022, eq. 3). W2 has two large singular values there, of the neurons with positive and with negative
outgoing weights. So v_ij is r_j, the length of column j of W2 along the two right singular vectors, times a factor that
all neurons of one kind share:

    [w_j, b_j] / r_j = sum_i c_i g_ij [x_i, 1].

Neurons that lie near each other have the same gate on almost all images. The difference of two such rows is a sum over
the few images between them: a sparse code over the images, up to their factors, as atoms (`neurons`). A direction on
which most differences vanish is the dual vector of one image (`sparse`), and from the codes the atoms are a
least-squares solution (`stages`). No image is searched: neither gates nor multipliers enter.
"""
