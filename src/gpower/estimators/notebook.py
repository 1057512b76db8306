"""A model as a notebook shows it: a small table of its components, in plain HTML."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import Any

from gpower._utils.text import make_printable

#: Components and variables that the table names.
MAX_TABLE_COMPONENTS, MAX_NAMED_VARIABLES = 20, 5
_TABLE_HEADINGS = ("component", "% of variance", "variables", "largest loadings")


def render_component_table(model: Any) -> str:
    """Number, share of the variance, number of variables and largest loadings of each component, every name as text.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> model = GPower(1, cardinality=2, covariance="precomputed").fit(load_pitprops().correlation)
    >>> render_component_table(model)[-61:]
    '<td>15</td><td>2</td><td>x0 +0.71, x1 +0.71</td></tr></table>'
    """
    shares, named = model.explained_variance_ratio_, model.loadings()
    rows = [
        (f"{j}", f"{100 * shares[j - 1]:.3g}", f"{len(of)}", _format_largest_loadings(of))
        for j, of in enumerate(named, 1)
    ]
    if len(rows) > MAX_TABLE_COMPONENTS:
        rows = [*rows[:MAX_TABLE_COMPONENTS], ("", "", "", f"and {len(rows) - MAX_TABLE_COMPONENTS} more components")]
    heads = "".join(f"<th>{head}</th>" for head in _TABLE_HEADINGS)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{heads}</tr>{lines}</table>"


def _format_largest_loadings(loadings: dict[str, float]) -> str:
    largest = islice(loadings.items(), MAX_NAMED_VARIABLES)
    words = ", ".join(f"{make_printable(name, 40)} {loading:+.2f}" for name, loading in largest)
    return words + (", …" if len(loadings) > MAX_NAMED_VARIABLES else "")
