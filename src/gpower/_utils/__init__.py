"""Helpers of all layers: arrays, the polar factor and signs, files, memory, threads, packages, text and warnings."""
