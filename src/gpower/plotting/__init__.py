"""Plot models, paths and selections; needs matplotlib, the ``plot`` extra, which is imported by the first plot."""

# The public functions of each module are listed in its `__all__` and nowhere else.

from gpower.plotting.bars import *
from gpower.plotting.biplot import *
from gpower.plotting.heatmaps import *
from gpower.plotting.paths import *
from gpower.plotting.save import *
from gpower.plotting.scores import *
from gpower.plotting.scree import *
