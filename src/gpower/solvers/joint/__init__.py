"""Solve for all components jointly: under a constraint between them, or for their total adjusted variance."""
