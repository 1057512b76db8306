"""The numbers of section 5 of the paper. Times are seconds in MATLAB on an unspecified machine."""

from __future__ import annotations

GPOWER_L1, GPOWER_L0 = "GPower l1", "GPower l0"
BLOCK_L1, BLOCK_L0 = "GPower l1,m", "GPower l0,m"
SPCA, RSVD_L1, RSVD_L0, GREEDY, PCA = "SPCA", "rSVD l1", "rSVD l0", "Greedy", "PCA"

Size = tuple[int, int]
Times = dict[str, dict[Size, float]]

RATIO_SIZES: tuple[Size, ...] = ((100, 1000), (250, 2500), (500, 5000), (750, 7500), (1000, 10000))
WIDTH_SIZES: tuple[Size, ...] = ((500, 1000), (500, 2000), (500, 4000), (500, 8000), (500, 16000))
FIVE_SIZES: tuple[Size, ...] = ((50, 500), (100, 1000), (250, 2500), (500, 5000), (750, 7500))


def _times(sizes: tuple[Size, ...], rows: dict[str, tuple[float, ...]]) -> Times:
    return {method: dict(zip(sizes, seconds, strict=True)) for method, seconds in rows.items()}


#: One component, fixed aspect ratio.
RATIO_TIMES = _times(
    RATIO_SIZES,
    {
        GPOWER_L1: (0.10, 0.86, 2.45, 4.28, 5.86),
        GPOWER_L0: (0.03, 0.42, 1.21, 2.07, 2.85),
        SPCA: (0.24, 2.92, 14.5, 40.7, 82.2),
        RSVD_L1: (0.21, 1.45, 6.70, 17.9, 39.7),
        RSVD_L0: (0.20, 1.33, 6.06, 15.7, 35.2),
    },
)
#: One component, 500 samples.
WIDTH_TIMES = _times(
    WIDTH_SIZES,
    {
        GPOWER_L1: (0.42, 0.92, 2.00, 4.00, 8.54),
        GPOWER_L0: (0.18, 0.42, 0.96, 2.14, 4.55),
        SPCA: (5.20, 7.20, 12.0, 22.6, 44.7),
        RSVD_L1: (1.20, 2.53, 5.33, 11.3, 26.7),
        RSVD_L0: (1.09, 2.26, 4.85, 10.5, 24.6),
    },
)
#: Five components.
FIVE_TIMES = _times(
    FIVE_SIZES,
    {
        GPOWER_L1: (0.22, 0.56, 4.62, 12.6, 20.4),
        GPOWER_L0: (0.06, 0.17, 2.15, 6.16, 10.3),
        BLOCK_L1: (0.09, 0.28, 3.50, 12.4, 23.0),
        BLOCK_L0: (0.05, 0.14, 2.39, 7.7, 12.4),
        SPCA: (0.61, 1.47, 13.4, 48.3, 113.3),
        RSVD_L1: (0.30, 1.15, 7.92, 37.4, 97.4),
        RSVD_L0: (0.28, 1.10, 7.54, 34.7, 85.7),
    },
)

#: Breast-cancer cohorts: samples and genes.
COHORTS = {"Vijver": (295, 13319), "Wang": (285, 14913), "Naderi": (135, 8278), "JRH-2": (101, 14223)}
N_PATHWAYS, N_MOTIFS = 536, 173

Columns = dict[str, tuple[float, float, float, float]]  # method → one number per cohort, in the order of COHORTS

#: Ten components, averaged over cardinalities.
COHORT_TIMES: Columns = {
    GPOWER_L1: (7.72, 6.96, 2.15, 2.69),
    GPOWER_L0: (3.80, 4.07, 1.33, 1.73),
    BLOCK_L1: (5.40, 4.37, 1.77, 1.14),
    BLOCK_L0: (5.61, 7.21, 2.25, 1.47),
    SPCA: (77.7, 82.1, 26.7, 11.2),
    RSVD_L1: (46.4, 49.3, 13.8, 15.7),
    RSVD_L0: (46.8, 48.4, 13.7, 16.5),
}
#: Largest pathway enrichment index over all cardinalities. The paper prints "GPower l1" twice; the second is l0.
PATHWAY_INDEX: Columns = {
    PCA: (0.0728, 0.0466, 0.0149, 0.0690),
    GPOWER_L1: (0.1493, 0.1026, 0.0728, 0.1250),
    GPOWER_L0: (0.1250, 0.1250, 0.0672, 0.1026),
    BLOCK_L1: (0.1418, 0.1250, 0.1026, 0.1381),
    BLOCK_L0: (0.1362, 0.1287, 0.1007, 0.1250),
    SPCA: (0.1362, 0.1007, 0.0840, 0.1007),
    RSVD_L1: (0.1213, 0.1175, 0.0914, 0.0914),
    RSVD_L0: (0.1175, 0.0970, 0.0634, 0.1063),
}
MOTIF_INDEX: Columns = {
    PCA: (0.0347, 0.0, 0.0289, 0.0405),
    GPOWER_L1: (0.1850, 0.0867, 0.0983, 0.1792),
    GPOWER_L0: (0.1676, 0.0809, 0.0925, 0.1908),
    BLOCK_L1: (0.1908, 0.1156, 0.1329, 0.1850),
    BLOCK_L0: (0.1850, 0.1098, 0.1329, 0.1734),
    SPCA: (0.1734, 0.0925, 0.0809, 0.1214),
    RSVD_L1: (0.1387, 0.0809, 0.1214, 0.1503),
    RSVD_L0: (0.1445, 0.0867, 0.0867, 0.1850),
}
