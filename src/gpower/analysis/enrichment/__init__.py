"""Enrichment of gene sets in components: over-representation, and the pathway enrichment index."""

from gpower.analysis.enrichment.gene_universe import Universe
from gpower.analysis.enrichment.over_representation import Enrichment, enrich
from gpower.analysis.enrichment.pathway_index import IndexScan, RandomIndex, random_index, scan_index

__all__ = ["Enrichment", "IndexScan", "RandomIndex", "Universe", "enrich", "random_index", "scan_index"]
