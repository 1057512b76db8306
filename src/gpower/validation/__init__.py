"""Check parameters and data, and turn them into the objects that the solvers work with."""
