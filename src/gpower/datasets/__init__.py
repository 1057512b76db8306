"""Data: small bundled tables, synthetic problems with a known answer, and readers of users' files."""

# A module with a list `__all__` offers what is in it; of the others, what users need is named here.

from gpower.datasets.bundled import *
from gpower.datasets.errors import TableError as TableError
from gpower.datasets.gene_sets import read_gmt as read_gmt
from gpower.datasets.metadata import read_metadata as read_metadata
from gpower.datasets.probes import *
from gpower.datasets.readers import read_table as read_table
from gpower.datasets.synthetic import *
from gpower.datasets.table import Table as Table
