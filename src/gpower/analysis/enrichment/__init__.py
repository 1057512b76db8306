"""Enrichment of gene sets in components: over-representation, and the pathway enrichment index."""

from gpower.analysis.enrichment.gene_universe import Universe
from gpower.analysis.enrichment.over_representation import Enrichment, enrich, random_index

__all__ = ["Enrichment", "Universe", "enrich", "random_index"]
