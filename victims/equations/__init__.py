"""The equations that attacks and the victims' cards share, one file each; they import neither of them.

* `network`: a network as plain tensors, its forward recursion and its back-propagated errors
* `gates`: the ReLU with a smooth gate, or with a rounded corner
* `losses`: the losses of one sample, and margins
* `stationarity`: the stationarity residual, the form to read; `adjoint`: its gradient written down, the form that runs
* `convolution`: the residual after a convolution, on its features
* `row_space`: the data subspace that a layer's weights show; `spans`: the spans of errors and activations
* `kinks`: the residual where pre-activations sit on the kink; `optimality`: the residuals on a victim's card
* `architectures`: the networks as torch modules
"""
