"""Waiting for what another thread or process does: as long as it takes on a busy machine, and no longer."""

import time


def wait_until(condition, seconds=120):
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
