"""Look up the requirements of the package, at their lowest and their newest versions, in the advisory database.

``make audit`` runs it. It exits with 1 if an advisory is open, and with 2 if something could not be checked: the
versions could not be resolved, or the database could not be reached, which pip-audit itself reports as packages that
were skipped.

Without a network, ``python tools/audit.py --database FOLDER`` reads the advisories of a folder instead: JSON files in
the OSV format, as in the unpacked https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip. If the versions
cannot be resolved either, the lower bounds of pyproject.toml and the installed packages are looked up. It needs the
package ``packaging``.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESOLUTIONS = ("lowest-direct", "highest")


def compile_requirements(resolution, target):
    """Write the versions of all requirements, direct and indirect, to a file; return why that failed, or ""."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--all-extras"]
    command += ["--resolution", resolution, "--output-file", str(target), str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    reasons = [line.strip(" ×╰─▶├│╭") for line in done.stderr.splitlines()]
    return "" if done.returncode == 0 else next((reason for reason in reasons if reason), "uv failed")


def list_known_versions(resolution):
    """Return name and version of packages that are known without an index: lower bounds, or what is installed."""
    if resolution == "highest":
        return {each.metadata["Name"]: each.version for each in distributions()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return dict(re.findall(r"^([\w.-]+)(?:\[.*\])?>=([\w.]+)", "\n".join(lines), re.MULTILINE))


def look_up_advisories(requirements):
    """Return the report of pip-audit: a dictionary for each package; an empty list if it could not look anything up."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--no-deps", "--disable-pip"]
    done = subprocess.run([*command, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return []


def look_up_in_folder(folder, versions):
    """Return what `look_up_advisories` does, from the advisories in the OSV files of a folder; [] if there are none."""
    advisories, names = {}, {normalize(name): name for name in versions}
    files = list(Path(folder).rglob("*.json"))
    for file in files:
        advisory = json.loads(file.read_text())
        for affected in [] if advisory.get("withdrawn") else advisory.get("affected", []):
            name = names.get(normalize(affected.get("package", {}).get("name", "")))
            if name is not None and is_affected(affected, versions[name]):
                events = [event for each in affected.get("ranges", []) for event in each["events"]]
                fixed = [event["fixed"] for event in events if "fixed" in event]
                advisories.setdefault(name, []).append({"id": advisory["id"], "fix_versions": fixed})
    packages = [{"name": name, "version": versions[name], "vulns": advisories.get(name, [])} for name in versions]
    return packages if files else []


def normalize(name):
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_affected(affected, version):
    """Return whether an entry of an advisory, in the OSV format, lists a version or a range that contains it."""
    from packaging.version import Version

    def parse(text):
        return Version("0.dev0" if text == "0" else text)

    number = parse(version)
    for each in affected.get("ranges", []):
        is_inside = False
        for event in each["events"] if each["type"] == "ECOSYSTEM" else []:  # in ascending order
            is_inside |= "introduced" in event and number >= parse(event["introduced"])
            is_over = "fixed" in event and number >= parse(event["fixed"])
            is_inside &= not (is_over or ("last_affected" in event and number > parse(event["last_affected"])))
        if is_inside:
            return True
    return version in affected.get("versions", ())


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


def audit(resolution, database):
    """Look up one set of versions, and return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder, f"{resolution}.txt")
        problem = compile_requirements(resolution, requirements)
        if problem and database is None:
            print(f"{resolution}: NOT CHECKED: the versions could not be resolved ({problem}).")
            return 2
        if database is None:
            return report(resolution, look_up_advisories(requirements))
        versions = list_known_versions(resolution)
        if problem:
            print(f"{resolution}: the versions could not be resolved ({problem}); {len(versions)} known ones are used.")
        else:
            versions = dict(re.findall(r"^([\w.-]+)==([\w.+!]+)", requirements.read_text(), re.MULTILINE))
        return report(resolution, look_up_in_folder(database, versions))


def main():
    """Look up both sets of versions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--database", type=Path, help="folder of OSV files to use instead of the network")
    database = parser.parse_args().database
    if database is not None and not database.is_dir():
        sys.exit(f"{database}: there is no such folder of advisories.")
    statuses = [audit(resolution, database) for resolution in RESOLUTIONS]
    sys.exit(1 if 1 in statuses else max(statuses))


if __name__ == "__main__":
    main()
