"""The Python blocks of the README and of the page of options run and print what they show; links lead to files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {"README.md": README, "docs/options.md": (ROOT / "docs" / "options.md").read_text(encoding="utf-8")}
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", flags=re.DOTALL)
BLOCKS = [(name, *block) for name, text in PAGES.items() for block in BLOCK.findall(text)]


@pytest.mark.parametrize(
    ("page", "code", "printed"), BLOCKS, ids=[f"{page}-{i}" for i, (page, *_) in enumerate(BLOCKS)]
)
def test_python_blocks_run_as_shown(page, code, printed, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {})  # executes our own documentation
    out = capsys.readouterr().out
    assert out
    if printed:
        assert out == printed


def test_there_are_blocks_to_run():
    assert [page for page, *_ in BLOCKS] == ["README.md", "README.md", "docs/options.md"]


def test_links_lead_to_files():
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_readme_fits_on_a_few_screens():
    assert len(README.splitlines()) <= 150
