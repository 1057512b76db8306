"""``gpower doctor``: what is installed, what is missing for which feature, and who multiplies the matrices."""

import os
import platform
from importlib.util import find_spec

from rich.console import Console
from rich.table import Column

from gpower import __version__
from gpower._utils.optional import Requirement, read_requirements
from gpower.cli.app import command
from gpower.cli.console import command_context
from gpower.report.terminal import print_line, print_rows

_FEATURE_BY_EXTRA = {
    "": "everything",
    "plot": "pictures",
    "cli": "the command line",
    "io": "Parquet, HDF5, data frames",
    "dask": "clusters, zarr stores",
    "single-cell": "AnnData",
}
#: No extras of ours, since each has a build of its own for every kind of device.
_DEVICE_PACKAGES = {"cupy": "GPUs", "torch": "PyTorch tensors"}


@command()
def doctor(*, as_json: bool = False) -> None:
    """What is installed, what is missing for which feature, and the libraries and threads that multiply.

    Parameters
    ----------
    as_json : bool
        Print one line of JSON on stdout.
    """
    with command_context(as_json=as_json) as answer:
        packages = [_check_requirement(wish) for wish in read_requirements()]
        devices = [_check_device_package(name, use) for name, use in _DEVICE_PACKAGES.items()]
        content = {
            "gpower": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": os.cpu_count() or 1,
            "threads": {name: value for name, value in sorted(os.environ.items()) if name.endswith("_NUM_THREADS")},
            "blas": _list_blas_libraries(),
        }
        answer.print_result(
            lambda: content | {"packages": packages + devices},
            lambda out: _print_installation(out, content, packages + devices),
        )


def _check_requirement(requirement: Requirement) -> dict[str, str]:
    """A package, and what is to be done about it; nothing where it is as it should be."""
    remedy = ""
    if not requirement.is_met:
        remedy = (
            f'pip install "gpower[{requirement.extra}]"'
            if requirement.extra
            else f"pip install --upgrade {requirement.package}"
        )
    elif fault := requirement.find_import_error():
        remedy = f"does not load, install it anew ({fault})"
    use = _FEATURE_BY_EXTRA.get(requirement.extra, requirement.extra)
    return {
        "for": use,
        "package": requirement.package,
        "least": requirement.min_version,
        "found": requirement.installed_version,
        "remedy": remedy,
    }


def _check_device_package(package: str, use: str) -> dict[str, str]:
    return {"for": use, "package": package, "least": "", "found": "yes" if find_spec(package) else "", "remedy": ""}


def _list_blas_libraries() -> list[str]:
    """The libraries that NumPy and SciPy multiply with, each with its threads."""
    import scipy.linalg  # noqa: F401  (loads both)
    from threadpoolctl import threadpool_info

    found = (library for library in threadpool_info() if library["user_api"] == "blas")
    return [f"{library['internal_api']} {library['version']}, threads: {library['num_threads']}" for library in found]


def _print_installation(console: Console, content: dict[str, object], packages: list[dict[str, str]]) -> None:
    """Versions and libraries as lines, packages as a table, and below it what is to be done, whatever the width."""
    for name, value in content.items():
        print_line(console, f"{name:<8} {_format_setting(value)}")
    heads = [Column(head, no_wrap=True) for head in ("for", "package", "at least", "found")]
    print_rows(console, heads, ([row["for"], row["package"], row["least"], row["found"] or "no"] for row in packages))
    for line in dict.fromkeys(f"{row['package']}: {row['remedy']}" for row in packages if row["remedy"]):
        print_line(console, line)


def _format_setting(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={given}" for name, given in value.items()) or "no limit set"
    return "; ".join(value) if isinstance(value, list) else str(value)
