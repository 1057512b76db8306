"""Short summaries of a fitted model: text for `print`, and a small HTML table for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

from gpower._utils.text import format_count, format_percent, make_printable

#: Largest number of components in a summary, and of variables named for each.
MAX_TABLE_COMPONENTS, MAX_NAMED_VARIABLES = 20, 5
#: Columns of the table of components.
COMPONENT_COLUMNS = ("component", "variance", "variables", "largest loadings")


def render_component_table(model: Any) -> str:
    """Return an HTML table: number, share of variance, number of variables and largest loadings of each component.

    Names of variables are escaped.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> model = GPower(1, cardinality=2, covariance="precomputed").fit(load_pitprops().correlation)
    >>> render_component_table(model)[-63:]
    '<td>15 %</td><td>2</td><td>x0 +0.71, x1 +0.71</td></tr></table>'
    """
    rows: list[tuple[object, ...]] = [*list_component_rows(model)]
    if len(rows) > MAX_TABLE_COMPONENTS:
        rows[MAX_TABLE_COMPONENTS:] = [("", "", "", f"and {len(rows) - MAX_TABLE_COMPONENTS} more components")]
    heads = "".join(f"<th>{head}</th>" for head in COMPONENT_COLUMNS)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{heads}</tr>{lines}</table>"


def format_summary(model: Any) -> str:
    """Return what `print` shows of a fitted model: its components, their share of the variance, its warnings and notes.

    Examples
    --------
    >>> from gpower import GPower
    >>> from gpower.datasets import load_pitprops
    >>> print(GPower(1, cardinality=2, covariance="precomputed").fit(load_pitprops().correlation))
    GPower: 1 component, 2 variables in all, 15 % of the variance
      1: 2 variables, 15 %: x0 +0.71, x1 +0.71
    """
    rows = list_component_rows(model)
    n_variables = len(set().union(*model.loadings()))
    share = float(model.explained_variance_ratio_.sum())
    lines = [
        f"{type(model).__name__}: {format_count(len(rows), 'component')}, {format_count(n_variables, 'variable')} in "
        f"all, {format_percent(share)} of the variance"
    ]
    for number, percent, count, largest in rows[:MAX_TABLE_COMPONENTS]:
        lines.append(f"  {number}: {format_count(count, 'variable')}, {percent}: {largest}".rstrip(": "))
    if len(rows) > MAX_TABLE_COMPONENTS:
        lines.append(f"  and {len(rows) - MAX_TABLE_COMPONENTS} more components")
    return "\n".join([*lines, *map(make_printable, list_remarks(model))])


def list_remarks(model: Any) -> list[str]:
    """Return the warnings of a fitted model, its notes, and the sentence on numbers chosen by cross-validation."""
    choice = getattr(model, "cardinality_choice_", None)
    return [
        *(f"Warning: {warning}" for warning in getattr(model, "warnings_", ())),
        *(f"Note: {note}" for note in getattr(model, "notes_", ())),
        *([] if choice is None else [f"{choice[0].upper()}{choice[1:]}."]),
    ]


def list_component_rows(model: Any, n_named: int = MAX_NAMED_VARIABLES) -> list[tuple[int, str, int, str]]:
    """Return the cells of `COMPONENT_COLUMNS` for each component, with the `n_named` largest loadings."""
    shares = map(format_percent, model.explained_variance_ratio_)
    return [
        (j, share, len(loadings), _format_largest_loadings(loadings, n_named))
        for j, (share, loadings) in enumerate(zip(shares, model.loadings(), strict=True), 1)
    ]


def _format_largest_loadings(loadings: dict[str, float], n_named: int) -> str:
    """Return the names and values of the first `n_named` of the sorted loadings."""
    largest = list(loadings.items())[:n_named]
    text = ", ".join(f"{make_printable(name, 40)} {loading:+.2f}" for name, loading in largest)
    return text + (", …" if len(loadings) > n_named else "")
