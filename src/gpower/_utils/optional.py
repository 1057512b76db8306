"""Packages that not everybody has: imported with the first need of them, and a sentence where they are missing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
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


@dataclass(frozen=True)
class Requirement:
    """A package that this one is installed with, as its metadata say: the extra that brings it, "" for all of us."""

    package: str
    least: str
    extra: str = ""

    @property
    def found(self) -> str:
        """The version that is installed, "" where there is none.

        Examples
        --------
        >>> Requirement("no-such-package", "1.0").found
        ''
        """
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    @property
    def met(self) -> bool:
        """Whether it is there, and new enough."""
        return _numbers(self.found) >= _numbers(self.least)

    def fault(self) -> str:
        """Why it would not load, "" if it does."""
        try:
            import_module({"scikit-learn": "sklearn"}.get(self.package, self.package))
        except Exception as error:  # whatever a broken installation raises
            return f"{type(error).__name__}: {error}"
        return ""


def requirements() -> Iterator[Requirement]:
    """What the installed metadata ask for, the core first.

    Examples
    --------
    >>> [requirement.package for requirement in requirements() if not requirement.extra]
    ['numpy', 'scikit-learn', 'scipy']
    """
    for line in metadata.requires("gpower") or []:
        part = re.match(r"([\w.-]+)[^>]*>=([\d.]+)(?:.*extra == ['\"](.+?)['\"])?", line)
        if part and part[3] != "all":
            yield Requirement(part[1], part[2], part[3] or "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
