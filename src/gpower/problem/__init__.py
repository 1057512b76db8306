"""The optimisation problem of a fit: its formulation, and how a component is removed from the matrix (deflation)."""
