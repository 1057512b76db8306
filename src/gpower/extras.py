"""Packages that not everybody has: imported with the first need of them, and a sentence where they are missing."""

from importlib import import_module
from types import ModuleType


def extra(module: str, name: str, need: str, packages: str = "") -> ModuleType:
    """A module of an optional package, or what to install.

    Parameters
    ----------
    module : str
        Its full name.
    name : str
        The extra of this package that brings it.
    need : str
        How the sentence begins that says what it is needed for.
    packages : str, optional
        What the sentence asks for, where that is more than the package of the module.

    Examples
    --------
    >>> extra("no_such_package.of_ours", "io", "Reading this needs")
    Traceback (most recent call last):
    ...
    ImportError: Reading this needs no_such_package: pip install "gpower[io]".
    """
    try:
        return import_module(module)
    except ImportError:
        packages = packages or module.partition(".")[0]
        raise ImportError(f'{need} {packages}: pip install "gpower[{name}]".') from None
