"""Show a model: as text in a terminal, and as one HTML page to send and to explore (the ``report`` extra)."""
