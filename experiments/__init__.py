"""Published experiments, run again with this library."""
