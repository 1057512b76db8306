"""The optimisation problem of a fit: its formulation and how found components are removed."""
