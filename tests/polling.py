"""Polling of a condition that another thread or process makes true."""

import time


def wait_until(condition, seconds=120):
    """Return whether a condition becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
