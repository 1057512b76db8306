"""Packages that not everybody has: imported with the first need of them, and a sentence where they are missing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType


def import_optional(module: str, extra_name: str, message_start: str, packages: str = "") -> ModuleType:
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
    >>> import_optional("no_such_package.of_ours", "io", "Reading this needs")
    Traceback (most recent call last):
    ...
    ImportError: Reading this needs no_such_package: pip install "gpower[io]".
    """
    try:
        return import_module(module)
    except ImportError:
        packages = packages or module.partition(".")[0]
        raise ImportError(f'{message_start} {packages}: pip install "gpower[{extra_name}]".') from None


@dataclass(frozen=True)
class Requirement:
    """A package that this one is installed with, as its metadata say: the extra that brings it, "" for all of us."""

    package: str
    min_version: str
    extra: str = ""

    @property
    def installed_version(self) -> str:
        """The version that is installed, "" where there is none.

        Examples
        --------
        >>> Requirement("no-such-package", "1.0").installed_version
        ''
        """
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return ""

    @property
    def is_met(self) -> bool:
        """Whether it is there, and new enough."""
        return _parse_version(self.installed_version) >= _parse_version(self.min_version)

    def find_import_error(self) -> str:
        """Why it would not load, "" if it does."""
        try:
            import_module({"scikit-learn": "sklearn"}.get(self.package, self.package))
        except Exception as error:  # whatever a broken installation raises
            return f"{type(error).__name__}: {error}"
        return ""


def read_requirements() -> Iterator[Requirement]:
    """What the installed metadata ask for, the core first.

    Examples
    --------
    >>> [requirement.package for requirement in read_requirements() if not requirement.extra]
    ['numpy', 'scikit-learn', 'scipy']
    """
    for line in metadata.requires("gpower") or []:
        part = re.match(r"([\w.-]+)[^>]*>=([\d.]+)(?:.*extra == ['\"](.+?)['\"])?", line)
        if part and part[3] != "all":
            yield Requirement(part[1], part[2], part[3] or "")


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
