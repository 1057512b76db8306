"""Solve for all components jointly: under a constraint, as a block, or for their total adjusted variance."""
