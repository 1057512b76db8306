"""The memory that a call takes."""

import tracemalloc


def measure_peak_memory(call):
    """Return the largest number of bytes that Python and NumPy held for a call at any time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
