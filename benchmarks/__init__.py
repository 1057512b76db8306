"""Compare GPower with other solvers: dataset × problem × solver, measured in one way. Run ``python -m benchmarks``."""
