"""Optional packages: imported when they are first needed, with an error that says what to install."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType


def import_optional(module: str, extra_name: str, message_start: str, packages: str = "") -> ModuleType:
    """Import a module of an optional package; raise ImportError with the command that installs it if it is missing.

    Parameters
    ----------
    module : str
        Full name of the module.
    extra_name : str
        Extra of this package that installs the module.
    message_start : str
        Beginning of the error message, which says what the module is needed for.
    packages : str, optional
        Packages that the error message asks for; by default the package of the module.

    Examples
    --------
    >>> import_optional("no_such_package.of_ours", "io", "Reading this needs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ImportError: Reading this needs no_such_package: pip install ...
    """
    try:
        return import_module(module)
    except ImportError:
        packages = packages or module.partition(".")[0]
        required = (each.pip_argument for each in read_requirements() if each.extra == extra_name)
        command = " ".join(["pip install", *required])
        raise ImportError(f"{message_start} {packages}: {command}.") from None


@dataclass(frozen=True)
class Requirement:
    """A dependency from the package metadata: name, versions, and extra ("" for a core dependency).

    Versions from `max_version` on are too new ("" if there is no such version).
    """

    package: str
    min_version: str
    extra: str = ""
    max_version: str = ""

    @property
    def versions(self) -> str:
        """Return the accepted versions, for instance ">=3.6,<4"."""
        return f">={self.min_version}" + f",<{self.max_version}" * bool(self.max_version)

    @property
    def pip_argument(self) -> str:
        """Return what `pip install` is called with, for instance ``"bokeh>=3.6,<4"`` with its quotes."""
        return f'"{self.package}{self.versions}"' if self.max_version else self.package

    @property
    def installed_version(self) -> str:
        """Return the installed version, or "" if the package is not installed.

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
        """Return whether the package is installed in an accepted version."""
        version = _parse_version(self.installed_version)
        too_new = self.max_version and version >= _parse_version(self.max_version)
        return version >= _parse_version(self.min_version) and not too_new

    def find_import_error(self) -> str:
        """Import the package and return the error as text, or "" if there is none."""
        try:
            import_module({"scikit-learn": "sklearn"}.get(self.package, self.package))
        except Exception as error:  # whatever a broken installation raises
            return f"{type(error).__name__}: {error}"
        return ""


def read_requirements() -> Iterator[Requirement]:
    """Yield the dependencies in the installed metadata, core dependencies first.

    Examples
    --------
    >>> [requirement.package for requirement in read_requirements() if not requirement.extra]
    ['numpy', 'scikit-learn', 'scipy']
    """
    for line in metadata.requires("gpower") or []:
        requirement, _, condition = line.partition(";")
        package = re.search(r"^[\w.-]+", requirement)
        least, most = re.search(r">=([\d.]+)", requirement), re.search(r"<([\d.]+)", requirement)
        extra = re.search(r"extra == ['\"](.+?)['\"]", condition)
        if package and least and not (extra and extra[1] == "all"):
            yield Requirement(package[0], least[1], extra[1] if extra else "", most[1] if most else "")


def _parse_version(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, () for an empty text, so that versions can be compared."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))
