"""Components found jointly, under a constraint that couples them."""
