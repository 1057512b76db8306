"""Published experiments, repeated with this library."""
