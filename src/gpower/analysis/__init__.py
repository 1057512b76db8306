"""Statistics about fitted components: association with metadata, permutation tests, gene-set enrichment."""
