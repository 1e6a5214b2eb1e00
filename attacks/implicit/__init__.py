"""Implicit differentiation of a training problem: how its minimum theta(x) moves with the images x.

At a minimum, grad_theta E(x, theta(x)) = 0; its derivative in x gives, for an upper-level loss l(theta),

    d l / dx = - d/dx <grad_theta E(x, theta), p>    with    p = H^-1 grad l,    H the Hessian of E in theta

(the implicit function theorem; Runkel et al. 2024, eqs. 5-7, whose printed sign holds for the gradient in theta*).

`training_problem` is E, `lower` finds its minimum, `inverse` solves H p = b, and `hypergradient` puts them together.
The library torchopt does the same, but has no quasi-Newton inverse.
"""
