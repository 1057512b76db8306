"""The Python blocks of the README run and print what it shows."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", README, flags=re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run_as_shown(code, printed, capsys):
    exec(compile(code, "README.md", "exec"), {})  # executes our own documentation
    out = capsys.readouterr().out
    assert out
    if printed:
        assert out == printed


def test_there_are_blocks_to_run():
    assert len(BLOCKS) == 2


def test_links_lead_to_files():
    root = Path(__file__).parents[2]
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert targets
    for target in targets:
        assert (root / target).exists(), target
