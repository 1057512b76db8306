"""Build what would be released, look at it, and try it where nothing else is installed.

``make release-check``: sdist and wheel into ``dist``; their metadata and contents; the wheel in an empty environment,
alone and with its extras. Says what it did, and stops at the first thing that is wrong.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SMOKE = """
import numpy as np
from gpower import GPower, __version__
X = np.random.default_rng(0).standard_normal((40, 30))
X[:, :5] += 3 * X[:, :1]
model = GPower(1, cardinality=5).fit(X)
assert np.flatnonzero(model.components_[0]).tolist() == [0, 1, 2, 3, 4], model.components_
model.save("model.npz")
assert (GPower.load("model.npz").components_ == model.components_).all()
print("gpower", __version__, "finds the five planted variables")
"""


def run(*command: object, expected: int = 0, **options: object) -> str:
    """What a command prints; what it prints and an end, where it fails or should have."""
    done = subprocess.run([*map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != expected:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def environment(folder: Path, *packages: object) -> Path:
    """A new environment with some packages; the folder of its commands."""
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if sys.platform == "win32" else "bin")
    run(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return commands


def built(tools: Path) -> tuple[Path, Path]:
    """Sdist and wheel, built from the sources as they are, with metadata that an index would take."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(tools / "python", "-m", "build", "--outdir", DIST, ROOT)
    run(tools / "python", "-m", "twine", "check", "--strict", *DIST.iterdir())
    return next(DIST.glob("*.tar.gz")), next(DIST.glob("*.whl"))


def check_contents(sdist: Path, wheel: Path) -> None:
    """The wheel holds the package and nothing else; the sdist also what one needs to test it and to read about it."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = {f"gpower/{file.relative_to(ROOT / 'src' / 'gpower').as_posix()}" for file in _tracked("src/gpower")}
    compare("wheel", package, {name for name in inside if ".dist-info/" not in name})
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    parts = (
        "src",
        "tests",
        "docs",
        "examples",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "pyproject.toml",
    )
    compare("sdist", {file.relative_to(ROOT).as_posix() for part in parts for file in _tracked(part)}, names, more=True)


def compare(what: str, wanted: set[str], found: set[str], more: bool = False) -> None:
    """Stop where something is missing or, unless there may be `more`, does not belong."""
    wrong = {f"missing: {name}" for name in wanted - found}
    wrong |= set() if more else {f"does not belong: {name}" for name in found - wanted}
    if wrong:
        sys.exit("\n".join([f"The {what} is not what it should be.", *sorted(wrong)]))


def _tracked(folder: str) -> list[Path]:
    """Files of a folder that belong to the repository."""
    return [ROOT / name for name in run("git", "ls-files", folder, cwd=ROOT).splitlines()]


def try_wheel(wheel: Path, folder: Path) -> None:
    """Alone it fits and tells what the command needs; with the extras the command gives its demonstration."""
    alone = environment(folder / "alone", wheel)
    print(run(alone / "python", "-c", SMOKE, cwd=folder).strip(), "(alone)")
    told = run(alone / "gpower", "demo", expected=1, cwd=folder)
    if "pip install rich typer" not in told:
        sys.exit(f"Without its extra the command should say what to install, not:\n{told}")
    full = environment(folder / "full", f"{wheel}[cli,plot,io]")
    print(run(full / "gpower", "--version", cwd=folder).strip())
    demo = run(full / "gpower", "demo", "--output", "demo", cwd=folder)
    if "found 8 of the 8" not in demo or len([*(folder / "demo").glob("*.png")]) != 2:
        sys.exit(f"The demonstration is not complete:\n{demo}")
    print(f"gpower demo finds the planted genes and draws two pictures; {wheel.name} is ready.")


def main() -> None:
    """All of it, in a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = environment(folder / "tools", "build", "twine")
        sdist, wheel = built(tools)
        check_contents(sdist, wheel)
        print(f"{sdist.name} and {wheel.name} hold what they should.")
        try_wheel(wheel, folder)


if __name__ == "__main__":
    main()
