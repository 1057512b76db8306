"""Pictures of models, paths and choices. Needs matplotlib, the ``plot`` extra, which loads with the first picture."""

# What each module offers is the list `__all__` in it, and written nowhere else.

from gpower.plotting.ascents import *
from gpower.plotting.files import *
from gpower.plotting.metadata import *
from gpower.plotting.models import *
from gpower.plotting.paths import *
from gpower.plotting.rankings import *
from gpower.plotting.samples import *
from gpower.plotting.scree import *
from gpower.plotting.selection import *
from gpower.plotting.variables import *
