"""Placeholders are listed in docs/releasing.md, and workflows use existing targets and jobs."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("", ".github", ".github/ISSUE_TEMPLATE", ".github/workflows", "docs", "paper", "recipe", "src/gpower")
SUFFIXES = {".md", ".toml", ".cff", ".json", ".yaml", ".yml", ".py"}
ROWS = [line.split(" | ") for line in (ROOT / "docs/releasing.md").read_text("utf-8").splitlines() if line[:2] == "| "]
MADE = {"docs/releasing.md", "docs/command-line.md"}
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in FOLDERS
    for path in (ROOT / folder).iterdir()
    if path.suffix in SUFFIXES or path.name in ("LICENSE", "Makefile")
}
LISTED = {row[0].strip("| `"): set(re.findall(r"`([^`]+)`", row[2])) for row in ROWS[1:]}
RUNS = [line for name in TEXTS if "/workflows/" in name for line in TEXTS[name].splitlines()]


@pytest.mark.parametrize(
    ("placeholder", "pattern"),
    [
        ("gpower-dev/gpower", "gpower-dev/gpower"),
        ("gpower.readthedocs.io", r"gpower\.readthedocs\.io"),
        ("the gpower developers", "[Tt]he gpower developers"),
        ("To be named at submission", "To be named"),
        ("sha256: 000…", "sha256: 0{64}"),
        ("recipe-maintainers: []", r"recipe-maintainers: \[\]"),
    ],
)
def test_every_placeholder_is_listed_with_its_files(placeholder, pattern):
    assert LISTED[placeholder] == {name for name, text in TEXTS.items() if re.search(pattern, text)} - MADE


def test_nothing_else_is_listed():
    assert len(LISTED) == 6


def test_workflows_make_what_the_makefile_has():
    asked = {word for line in RUNS for call in re.findall(r"\bmake ([a-z -]+)", line) for word in call.split()}
    assert asked >= {"docs", "release-check", "test-lowest", "coverage", "lint"}
    assert asked <= set(re.findall(r"^([a-z-]+):", TEXTS["Makefile"], re.MULTILINE))


def test_workflows_install_groups_that_are_declared():
    asked = {group for line in RUNS for group in re.findall(r"--group ([a-z]+)", line)}
    assert asked
    assert asked <= set(tomllib.loads(TEXTS["pyproject.toml"])["dependency-groups"])


def test_jobs_that_are_waited_for_exist():
    for name in ("test", "docs", "release"):
        text = TEXTS[f".github/workflows/{name}.yml"]
        jobs = set(re.findall(r"^  ([a-z]+):$", text.partition("\njobs:\n")[2], re.MULTILINE))
        assert jobs
        assert jobs >= set(re.findall(r"^    needs: (\w+)$", text, re.MULTILINE))
