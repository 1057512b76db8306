"""Data: small bundled tables, synthetic problems with a known answer, and the reader of users' tables."""

from gpower.datasets.bundled import Pitprops, PlantedExpression, load_pitprops, load_planted_expression
from gpower.datasets.errors import TableError
from gpower.datasets.synthetic import PlantedComponents, gaussian, planted_components, planted_expression
from gpower.datasets.tables import Table, read_table

__all__ = [
    "Pitprops",
    "PlantedComponents",
    "PlantedExpression",
    "Table",
    "TableError",
    "gaussian",
    "load_pitprops",
    "load_planted_expression",
    "planted_components",
    "planted_expression",
    "read_table",
]
