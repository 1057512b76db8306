"""Data: small bundled tables, synthetic problems with a known answer, readers of users' files, and public cohorts."""

from gpower.datasets.arrayexpress import read_arrayexpress
from gpower.datasets.bundled import Pitprops, PlantedExpression, load_pitprops, load_planted_expression
from gpower.datasets.cohorts import (
    fetch_arrayexpress,
    fetch_geo_series,
    fetch_naderi,
    fetch_sotiriou,
    fetch_vijver,
    fetch_wang,
)
from gpower.datasets.downloads import fetch_file
from gpower.datasets.errors import TableError
from gpower.datasets.expression import ExpressionCohort, expression_cohort
from gpower.datasets.gene_sets import read_gmt, write_gmt
from gpower.datasets.geo import GeoSeries, read_geo_series
from gpower.datasets.nki import read_nki
from gpower.datasets.probes import collapse_probes, read_probe_genes
from gpower.datasets.synthetic import (
    FactorModel,
    PlantedComponents,
    TenVariables,
    factor_model,
    gaussian,
    planted_components,
    planted_expression,
    zou_hastie_tibshirani,
)
from gpower.datasets.tables import Table, read_table

__all__ = [
    "ExpressionCohort",
    "FactorModel",
    "GeoSeries",
    "Pitprops",
    "PlantedComponents",
    "PlantedExpression",
    "Table",
    "TableError",
    "TenVariables",
    "collapse_probes",
    "expression_cohort",
    "factor_model",
    "fetch_arrayexpress",
    "fetch_file",
    "fetch_geo_series",
    "fetch_naderi",
    "fetch_sotiriou",
    "fetch_vijver",
    "fetch_wang",
    "gaussian",
    "load_pitprops",
    "load_planted_expression",
    "planted_components",
    "planted_expression",
    "read_arrayexpress",
    "read_geo_series",
    "read_gmt",
    "read_nki",
    "read_probe_genes",
    "read_table",
    "write_gmt",
    "zou_hastie_tibshirani",
]
