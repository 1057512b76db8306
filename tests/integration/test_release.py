"""The version, the address and the requirements are the same in every file of a release."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from tools import audit

from gpower import __version__

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIG["project"]
SOURCE = PROJECT["urls"]["Source"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    assert re.search(r"^version: (.+)$", text("CITATION.cff"), re.MULTILINE)[1] == __version__
    assert json.loads(text("codemeta.json"))["version"] == __version__
    assert re.search(r'set version = "(.+)"', text("recipe/meta.yaml"))[1] == __version__


@pytest.mark.parametrize(
    "name", ["README.md", "CITATION.cff", "codemeta.json", "recipe/meta.yaml", "SECURITY.md", "CHANGELOG.md"]
)
def test_addresses_of_the_repository_agree(name):
    owner = SOURCE.removeprefix("https://github.com/")
    addresses = re.findall(r"https://(?:raw\.githubusercontent|github)\.com/([\w-]+/[\w-]+)", text(name))
    assert set(addresses) <= {owner}


def test_the_conda_recipe_has_the_requirements_of_the_package():
    lines = re.findall(r"- ([\w-]+) (>=[\d.]+(?:,<[\d.]+)?)$", text("recipe/meta.yaml"), re.MULTILINE)
    asked = {name + least for name, least in lines if not name.startswith("hatch")}
    extras = PROJECT["optional-dependencies"]
    declared = {*PROJECT["dependencies"], *(line for name in extras if name != "all" for line in extras[name])}
    assert asked == {line.replace("[array]", "").replace("matplotlib", "matplotlib-base") for line in declared}


def test_every_supported_python_is_tested_and_documented():
    pythons = re.search(r"python: \[(.+)\]", text(".github/workflows/test.yml"))[1]
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert re.findall(r'"(.+?)"', pythons) == versions
    assert versions[0] == PROJECT["requires-python"].removeprefix(">=")
    assert re.search(r'set python_min = "(.+)"', text("recipe/meta.yaml"))[1] == versions[0]
    assert f"| Python | {', '.join(versions)} |" in text("docs/support.md")
    assert re.search(r"^VERSIONS := (.+)$", text("Makefile"), re.MULTILINE)[1].split() == versions


def test_the_readme_of_the_package_index_links_to_the_repository():
    readme = text("README.md")
    for rule in CONFIG["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        readme = re.sub(rule["pattern"], rule["replacement"], readme)
    pictures, links = (re.findall(rf"{mark}\[[^\]]*\]\(([^)]+)\)", readme) for mark in ("!", "(?<!!)"))
    assert pictures
    assert links
    own = {
        SOURCE.replace("github.com", "raw.githubusercontent.com") + "/main/": pictures,
        SOURCE + "/blob/main/": [link for link in links if "jmlr.org" not in link],
    }
    for address, targets in own.items():
        for target in targets:
            assert target.startswith(address)
            assert (ROOT / target.removeprefix(address)).exists()


def test_every_page_is_in_the_table_of_contents():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index", "command-line"}
    lists = "".join(
        block
        for path in (ROOT / "docs").glob("*.md")
        for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    )
    missing = pages - {line.strip() for line in lists.splitlines()}
    assert not missing, f"add to the list in docs/how-to.md or docs/explanation.md: {sorted(missing)}"


def test_every_example_is_in_the_gallery_or_explained_elsewhere():
    conf = text("docs/conf.py")
    named = set(re.findall(r'"(\w+)"', re.search(r"^ORDER = \((.*?)\)$", conf, re.DOTALL | re.MULTILINE)[1]))
    elsewhere = set(re.findall(r'"(\w+)"', re.search(r"^ELSEWHERE = \((.*?)\)$", conf, re.MULTILINE)[1]))
    assert named | elsewhere >= {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert named | elsewhere <= {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([{"name": "numpy", "version": "2.0", "vulns": []}], 0, "highest: 1 packages, 0 with an open advisory."),
        ([{"name": "numpy", "skip_reason": "not found"}], 2, "NOT CHECKED: the advisory database could not be reached"),
        ([], 2, "NOT CHECKED"),
        (
            [{"name": "jinja2", "version": "3.1.4", "vulns": [{"id": "CVE-2025-27516", "fix_versions": ["3.1.6"]}]}],
            1,
            "highest: jinja2 3.1.4: CVE-2025-27516, fixed in 3.1.6",
        ),
    ],
)
def test_the_audit_never_passes_without_a_database(capsys, packages, status, said):
    assert audit.report("highest", packages) == status
    assert said in capsys.readouterr().out


def test_the_audit_says_when_versions_cannot_be_resolved(capsys, monkeypatch):
    monkeypatch.setattr(audit, "compile_requirements", lambda resolution, target: "no index")
    assert audit.audit("highest", None) == 2
    assert capsys.readouterr().out == "highest: NOT CHECKED: the versions could not be resolved (no index).\n"


class TestAuditWithAFolder:
    """Advisories in the OSV format are looked up without a network."""

    RANGES = (({"introduced": "0"}, {"fixed": "2.0"}), ({"introduced": "3.1"}, {"last_affected": "3.2"}))

    def write(self, folder, **fields):
        ranges = [{"type": "ECOSYSTEM", "events": list(events)} for events in self.RANGES]
        affected = {"package": {"ecosystem": "PyPI", "name": "Made.Up"}, "ranges": ranges, "versions": ["9.9"]}
        (folder / "CVE-0.json").write_text(json.dumps({"id": "CVE-0", "affected": [affected], **fields}))

    @pytest.mark.parametrize(
        ("version", "is_affected"),
        [("0.1", True), ("1.9", True), ("2.0", False), ("3.0", False), ("3.2", True), ("3.3", False), ("9.9", True)],
    )
    def test_ranges_and_versions(self, tmp_path, version, is_affected):
        assert not audit.look_up_in_folder(tmp_path, {"made-up": version}), "an empty folder passes"
        advisory = [{"id": "CVE-0", "fix_versions": ["2.0"]}]
        for fields, expected in (({}, advisory * is_affected), ({"withdrawn": "2026-01-01T00:00:00Z"}, [])):
            self.write(tmp_path, **fields)
            other, found = audit.look_up_in_folder(tmp_path, {"other": "1.0", "made_up": version})
            assert not other["vulns"]
            assert found["vulns"] == expected


@pytest.mark.parametrize(
    ("package", "least"), [("jinja2", (3, 1, 6)), ("h5py", (3, 13)), ("distributed", (2026, 1, 0))]
)
def test_lower_bounds_exclude_versions_with_advisories(package, least):
    lines = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    (bound,) = {line.partition(">=")[2] for line in lines if line.startswith(f"{package}>=")}
    assert tuple(map(int, bound.split("."))) >= least
