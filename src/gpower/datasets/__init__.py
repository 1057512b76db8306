"""Small bundled tables, synthetic data with a known structure, and readers of users' files."""

# Modules with an `__all__` list export its names; the public names of other modules are imported one by one.

from gpower.datasets.bundled import *
from gpower.datasets.synthetic import *
from gpower.io.gmt import read_gmt as read_gmt
from gpower.io.tables.metadata import read_metadata as read_metadata
from gpower.io.tables.microarray_probes import *
from gpower.io.tables.reader import read_table as read_table
from gpower.io.tables.table import Table as Table
from gpower.io.tables.table import TableError as TableError
