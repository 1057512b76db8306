"""Gene sets in components: over-representation, and the pathway enrichment index."""

from gpower.enrichment.index import IndexScan, RandomIndex, random_index, scan_index
from gpower.enrichment.over_representation import Enrichment, enrich
from gpower.enrichment.universe import Universe

__all__ = ["Enrichment", "IndexScan", "RandomIndex", "Universe", "enrich", "random_index", "scan_index"]
