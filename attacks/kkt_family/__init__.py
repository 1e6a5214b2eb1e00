"""The mathematics that the KKT family shares.

A homogeneous network trained to separate its data tends in direction to a KKT point of the margin problem
(Lyu & Li 2020), so its weights satisfy stationarity, theta = sum_i lambda_i y_i grad_theta Phi(theta; x_i) with
lambda_i >= 0 (Haim et al. 2022, eqs. 2-3). The residual of that equation is what the attacks minimise.
"""
