"""``gpower doctor``: what is installed, what is missing for which feature, and who multiplies the matrices."""

import os
import platform
from importlib.util import find_spec

from rich.console import Console
from rich.table import Column

from gpower import __version__
from gpower._utils.optional import Requirement, requirements
from gpower.cli.app import command
from gpower.cli.console import answering
from gpower.report.terminal import print_rows, say

_FEATURES = {
    "": "everything",
    "plot": "pictures",
    "cli": "the command line",
    "io": "Parquet, HDF5, data frames",
    "dask": "clusters, zarr stores",
    "single-cell": "AnnData",
}
#: No extras of ours, since each has a build of its own for every kind of device.
_DEVICES = {"cupy": "GPUs", "torch": "PyTorch tensors"}


@command()
def doctor(*, as_json: bool = False) -> None:
    """What is installed, what is missing for which feature, and the libraries and threads that multiply.

    Parameters
    ----------
    as_json : bool
        Print one line of JSON on stdout.
    """
    with answering(as_json=as_json) as answer:
        packages = [_examined(wish) for wish in requirements()]
        devices = [_device(name, use) for name, use in _DEVICES.items()]
        content = {
            "gpower": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": os.cpu_count() or 1,
            "threads": {name: value for name, value in sorted(os.environ.items()) if name.endswith("_NUM_THREADS")},
            "blas": _blas(),
        }
        answer.give(
            lambda: content | {"packages": packages + devices}, lambda out: _show(out, content, packages + devices)
        )


def _examined(wish: Requirement) -> dict[str, str]:
    """A package, and what is to be done about it; nothing where it is as it should be."""
    remedy = ""
    if not wish.met:
        remedy = f'pip install "gpower[{wish.extra}]"' if wish.extra else f"pip install --upgrade {wish.package}"
    elif fault := wish.fault():
        remedy = f"does not load, install it anew ({fault})"
    use = _FEATURES.get(wish.extra, wish.extra)
    return {"for": use, "package": wish.package, "least": wish.least, "found": wish.found, "remedy": remedy}


def _device(package: str, use: str) -> dict[str, str]:
    return {"for": use, "package": package, "least": "", "found": "yes" if find_spec(package) else "", "remedy": ""}


def _blas() -> list[str]:
    """The libraries that NumPy and SciPy multiply with, each with its threads."""
    import scipy.linalg  # noqa: F401  (loads both)
    from threadpoolctl import threadpool_info

    found = (library for library in threadpool_info() if library["user_api"] == "blas")
    return [f"{library['internal_api']} {library['version']}, threads: {library['num_threads']}" for library in found]


def _show(out: Console, content: dict[str, object], packages: list[dict[str, str]]) -> None:
    """Versions and libraries as lines, packages as a table, and below it what is to be done, whatever the width."""
    for name, value in content.items():
        say(out, f"{name:<8} {_line(value)}")
    heads = [Column(head, no_wrap=True) for head in ("for", "package", "at least", "found")]
    print_rows(out, heads, ([row["for"], row["package"], row["least"], row["found"] or "no"] for row in packages))
    for line in dict.fromkeys(f"{row['package']}: {row['remedy']}" for row in packages if row["remedy"]):
        say(out, line)


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={given}" for name, given in value.items()) or "no limit set"
    return "; ".join(value) if isinstance(value, list) else str(value)
