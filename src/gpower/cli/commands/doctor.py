"""``gpower doctor``: installed packages, missing ones and the features that need them, and the BLAS in use."""

import os
import platform
from importlib.util import find_spec

from rich.console import Console

from gpower import __version__
from gpower._utils.optional import Requirement, read_requirements
from gpower.cli.app import command
from gpower.cli.console import OutputSink
from gpower.report.terminal import print_line, print_rows

_FEATURE_BY_EXTRA = {
    "": "everything",
    "plot": "pictures",
    "cli": "the command line",
    "io": "Parquet, HDF5, data frames",
    "dask": "clusters, zarr stores",
    "single-cell": "AnnData",
}
#: Packages that no extra installs, because the right build depends on the device.
_DEVICE_PACKAGES = {"cupy": "GPUs", "torch": "PyTorch tensors"}


@command(has_json=True)
def doctor(sink: OutputSink) -> None:
    """Show what is installed, what is missing for which feature, and the libraries and threads of matrix products."""
    packages = [_check_requirement(requirement) for requirement in read_requirements()]
    devices = [
        {"for": feature, "package": name, "versions": "", "found": "yes" if find_spec(name) else "", "remedy": ""}
        for name, feature in _DEVICE_PACKAGES.items()
    ]
    content = {
        "gpower": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count() or 1,
        "threads": {name: value for name, value in sorted(os.environ.items()) if name.endswith("_NUM_THREADS")},
        "blas": _list_blas_libraries(),
    }
    sink.print_result(
        lambda: content | {"packages": packages + devices},
        lambda console: _print_installation(console, content, packages + devices),
    )


def _check_requirement(requirement: Requirement) -> dict[str, str]:
    """Return a package with its versions and a remedy, which is "" if the package is installed and can be imported."""
    remedy = ""
    if not requirement.is_met:
        remedy = f"pip install --upgrade {requirement.pip_argument}"
    elif import_error := requirement.find_import_error():
        remedy = f"cannot be imported, reinstall it ({import_error})"
    return {
        "for": _FEATURE_BY_EXTRA.get(requirement.extra, requirement.extra),
        "package": requirement.package,
        "versions": requirement.versions,
        "found": requirement.installed_version,
        "remedy": remedy,
    }


def _list_blas_libraries() -> list[str]:
    """Return the BLAS libraries of NumPy and SciPy, each with its number of threads."""
    import scipy.linalg  # noqa: F401  (loads both)
    from threadpoolctl import threadpool_info

    libraries = (library for library in threadpool_info() if library["user_api"] == "blas")
    return [f"{each['internal_api']} {each['version']}, threads: {each['num_threads']}" for each in libraries]


def _print_installation(console: Console, content: dict[str, object], packages: list[dict[str, str]]) -> None:
    """Print versions and libraries as lines, packages as a table, and the remedies below it, unwrapped."""
    for name, value in content.items():
        print_line(console, f"{name:<8} {_format_setting(value)}")
    headings = ("for", "package", "versions", "found")
    rows = ([row["for"], row["package"], row["versions"], row["found"] or "no"] for row in packages)
    print_rows(console, headings, rows, left=headings)
    for line in dict.fromkeys(f"{row['package']}: {row['remedy']}" for row in packages if row["remedy"]):
        print_line(console, line)


def _format_setting(value: object) -> str:
    """Return a setting as text: the entries of a dictionary or list, or the value."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items()) or "no limit set"
    return "; ".join(value) if isinstance(value, list) else str(value)
