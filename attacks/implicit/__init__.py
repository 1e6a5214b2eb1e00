"""Implicit differentiation of a training problem: how its minimum theta(x) moves with the images x.

At a minimum, grad_theta E(x, theta(x)) = 0; its derivative in x gives, for an upper-level loss l(theta),

    d l / dx = - d/dx <grad_theta E(x, theta), p>    with    p = H^-1 grad l,    H the Hessian of E in theta

(the implicit function theorem; Runkel et al. 2024, eqs. 5-7, whose printed sign holds for the gradient in theta*).

The library for this, torchopt, has had no release since 2023 and no quasi-Newton inverse; what is needed on top of
torch.func and scipy is little, and stands here.
"""
