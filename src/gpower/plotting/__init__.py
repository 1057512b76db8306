"""Pictures of models, paths and choices. Needs matplotlib, the ``plot`` extra, which loads with the first picture."""

# What each module offers is the list `__all__` in it, and written nowhere else.

from gpower.plotting.convergence import *
from gpower.plotting.loadings import *
from gpower.plotting.metadata import *
from gpower.plotting.paths import *
from gpower.plotting.rankings import *
from gpower.plotting.save import *
from gpower.plotting.scores import *
from gpower.plotting.scree import *
from gpower.plotting.selection import *
from gpower.plotting.variables import *
