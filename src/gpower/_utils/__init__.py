"""Helpers without mathematics: arrays, devices, files, memory, optional packages, text and warnings."""
