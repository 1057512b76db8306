"""``gpower doctor`` lists what an installation supports and what it lacks."""

from importlib import metadata

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from gpower._utils import optional


def rows_by_package(gpower):
    """Return the row of each package, by name."""
    return {row["package"]: row for row in gpower.read_json("doctor")["packages"]}


def test_every_declared_package_is_examined(gpower):
    declared = [Requirement(line) for line in metadata.requires("gpower")]
    rows = rows_by_package(gpower)
    assert {(row["package"], SpecifierSet(row["versions"])) for row in rows.values() if row["versions"]} == {
        (requirement.name, requirement.specifier) for requirement in declared
    }
    assert rows["numpy"]["found"] == np.__version__
    assert rows["numpy"]["remedy"] == ""


def test_missing_old_or_broken_packages_come_with_a_remedy(gpower, monkeypatch):
    version, load = metadata.version, optional.import_module

    def found(package):
        if package == "zarr":
            raise metadata.PackageNotFoundError(package)
        return {"h5py": "1.0.2rc1", "bokeh": "4.0"}.get(package) or version(package)

    def loaded(name):
        if name == "matplotlib":
            raise OSError("libfreetype.so.6: cannot open shared object file")
        return load(name)

    monkeypatch.setattr(metadata, "version", found)
    monkeypatch.setattr(optional, "import_module", loaded)
    rows = rows_by_package(gpower)
    assert (rows["zarr"]["found"], rows["zarr"]["remedy"]) == ("", "pip install --upgrade zarr")
    assert (rows["h5py"]["found"], rows["h5py"]["remedy"]) == ("1.0.2rc1", "pip install --upgrade h5py")
    assert (rows["bokeh"]["found"], rows["bokeh"]["remedy"]) == ("4.0", 'pip install --upgrade "bokeh>=3.6,<4"')
    assert "libfreetype.so.6" in rows["matplotlib"]["remedy"]
    assert rows["scipy"]["remedy"] == ""
    monkeypatch.setenv("COLUMNS", "80")
    lines = gpower("doctor").stdout.splitlines()
    assert "zarr: pip install --upgrade zarr" in lines
    assert lines.count(f"matplotlib: {rows['matplotlib']['remedy']}") == 1  # two features need it


def test_it_lists_libraries_and_threads(gpower, monkeypatch):
    pytest.importorskip("threadpoolctl")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    printed = gpower("doctor").stdout
    assert "OMP_NUM_THREADS=3" in printed
    assert "threads:" in next(line for line in printed.splitlines() if line.startswith("blas"))
    assert "single" not in printed  # features are described in words
    assert "AnnData" in printed
