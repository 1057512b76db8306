"""Look up the requirements of the package, at their lowest and their newest versions, in the advisory database.

``make audit`` runs it. It exits with 1 if an advisory is open, and with 2 if the database could not be reached, which
pip-audit itself reports as packages that were skipped.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESOLUTIONS = ("lowest-direct", "highest")


def compile_requirements(resolution, target):
    """Write the versions of all requirements, direct and indirect, to a file."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--all-extras"]
    command += ["--resolution", resolution, "--output-file", str(target), str(ROOT / "pyproject.toml")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def look_up_advisories(requirements):
    """Return the report of pip-audit: a dictionary for each package; an empty list if it could not look anything up."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
    done = subprocess.run([*command, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(done.stderr.strip()[-500:])
        return []


def report(resolution, packages):
    """Print what was found for one set of versions, and return the exit status."""
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if not packages or skipped:
        named = f" for {', '.join(skipped[:5])}{', …' if len(skipped) > 5 else ''}" if skipped else ""
        print(f"{resolution}: NOT CHECKED: the advisory database could not be reached{named}.")
        return 2
    affected = [package for package in packages if package["vulns"]]
    for package in affected:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no version"
            print(f"{resolution}: {package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")
    print(f"{resolution}: {len(packages)} packages, {len(affected)} with an open advisory.")
    return 1 if affected else 0


def main():
    """Look up both sets of versions."""
    statuses = []
    with tempfile.TemporaryDirectory() as folder:
        for resolution in RESOLUTIONS:
            requirements = Path(folder, f"{resolution}.txt")
            compile_requirements(resolution, requirements)
            statuses.append(report(resolution, look_up_advisories(requirements)))
    sys.exit(1 if 1 in statuses else max(statuses))


if __name__ == "__main__":
    main()
