"""How fits are found: losses with their derivatives, solvers, priors, what labels leave open."""
