"""TODO."""

from __future__ import annotations

import sys

#: Share of the free memory that a fit may take when nothing is said.
DEFAULT_MEMORY_SHARE = 0.25


def get_default_memory_limit() -> float:
    """Bytes that a fit may take when nothing is said."""
    return DEFAULT_MEMORY_SHARE * get_free_memory()


def get_free_memory() -> int:
    """Bytes of memory that are free and granted to the process, as the system says; a gigabyte where it does not."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return min(int(fields["MemAvailable"].split()[0]) * 1024, _get_free_address_space())
    except (OSError, KeyError, ValueError, ImportError):
        return 1 << 30


def _get_free_address_space() -> int:
    """Bytes of address space that the process may still take (ulimit -v)."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    with open("/proc/self/statm") as sizes:
        return max(limit - int(sizes.read().split()[0]) * resource.getpagesize(), 0)
