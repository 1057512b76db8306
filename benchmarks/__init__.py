"""Side by side with peers: dataset × problem × solver, one ruler for all. Run ``python -m benchmarks``."""
