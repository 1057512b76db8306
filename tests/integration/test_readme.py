"""The Python blocks of the README and of two pages run and print what they show; links lead to files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/options.md", "docs/enrichment.md")
}
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", flags=re.DOTALL)
BLOCKS = [(name, *block) for name, text in PAGES.items() for block in BLOCK.findall(text)]


@pytest.mark.parametrize(
    ("page", "code", "printed"),
    [pytest.param(*block, marks=pytest.mark.slow if "enrichment" in block[0] else ()) for block in BLOCKS],
    ids=[f"{page}-{i}" for i, (page, *_) in enumerate(BLOCKS)],
)
def test_python_blocks_run_as_shown(page, code, printed, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {})  # executes our own documentation
    out = capsys.readouterr().out
    assert out
    if printed:
        assert out == printed


def test_there_are_blocks_to_run():
    expected = [("README.md", True)] * 2 + [("docs/options.md", False)] + [("docs/enrichment.md", True)] * 2
    assert [(page, bool(printed)) for page, _, printed in BLOCKS] == expected


def test_links_lead_to_files():
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", PAGES["README.md"])
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_readme_fits_on_a_few_screens():
    assert len(PAGES["README.md"].splitlines()) <= 150
