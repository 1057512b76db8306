"""Data: small bundled tables, synthetic problems with a known answer, and readers of users' files."""

# A module with a list `__all__` offers what is in it; of the others, what users need is named here.

from gpower.datasets.bundled import *
from gpower.datasets.synthetic import *
from gpower.io.gmt import read_gmt as read_gmt
from gpower.io.tables.errors import TableError as TableError
from gpower.io.tables.metadata import read_metadata as read_metadata
from gpower.io.tables.probes import *
from gpower.io.tables.reader import read_table as read_table
from gpower.io.tables.table import Table as Table
