"""The machinery that the KKT family shares: `kkt`, `kkt-multiclass`, `kkt-general`, `kkt-span` and `kkt-conv`.

All of them minimise the residual of theta = sum_ij c_ij grad_theta Phi_j(theta; x_i), which is in
`victims.equations.stationarity`, over candidates x_i and coefficients c_ij: `attack` pools restarts, `search` is the
fast solver, `published` the authors' loop, and `coefficients` are the c_ij by what an attack assumes of them.
`ranking` says which candidates are right.
"""
