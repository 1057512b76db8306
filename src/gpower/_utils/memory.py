"""Free memory, and the default limit on the memory of a fit."""

from __future__ import annotations

import sys

#: Share of the free memory that a fit may take by default.
DEFAULT_MEMORY_SHARE = 0.25


def get_default_memory_limit() -> float:
    """Return the number of bytes that a fit may take by default."""
    return DEFAULT_MEMORY_SHARE * get_free_memory()


def get_free_memory() -> int:
    """Return the number of bytes that are free and that the process may take, or a gigabyte if that is unknown."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return min(int(fields["MemAvailable"].split()[0]) * 1024, _get_free_address_space())
    except (OSError, KeyError, ValueError, ImportError):
        return 1 << 30


def get_free_device_memory() -> int:
    """Return the number of bytes that new arrays on the current GPU may take, or zero if CuPy is not in use."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return 0
    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free + cupy.get_default_memory_pool().free_bytes())


def _get_free_address_space() -> int:
    """Return the number of bytes of address space that the process may still take (ulimit -v)."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    with open("/proc/self/statm") as sizes:
        return max(limit - int(sizes.read().split()[0]) * resource.getpagesize(), 0)
