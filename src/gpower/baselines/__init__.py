"""The methods that the GPower paper compares with or builds on, each behind the estimator of the library.

=========================== ==================================================================
`Thresholding`              small loadings of PCA set to zero (Cadima and Jolliffe 1995)
`RotatedPCA`                varimax and quartimax rotation (Jolliffe 1995)
`SCoTLASS`                  variance under ‖z‖₁ ≤ t (Jolliffe, Trendafilov and Uddin 2003)
`SPCA`                      elastic-net regressions (Zou, Hastie and Tibshirani 2006)
`RankOneSVD`                thresholded rank-one approximation (Shen and Huang 2008)
`Greedy`                    forward and backward selection (d'Aspremont et al. 2008; Moghaddam et al. 2006)
`DSPCA`                     semidefinite relaxation (d'Aspremont et al. 2007)
`ScikitLearnSparsePCA`      scikit-learn's `SparsePCA`, calibrated
=========================== ==================================================================
"""

from gpower.baselines.dspca import DSPCA
from gpower.baselines.greedy import Greedy
from gpower.baselines.rank_one_svd import RankOneSVD
from gpower.baselines.rotation import RotatedPCA
from gpower.baselines.scikit_learn import ScikitLearnSparsePCA
from gpower.baselines.scotlass import SCoTLASS
from gpower.baselines.spca import SPCA
from gpower.baselines.thresholding import Thresholding

__all__ = [
    "DSPCA",
    "SPCA",
    "Greedy",
    "RankOneSVD",
    "RotatedPCA",
    "SCoTLASS",
    "ScikitLearnSparsePCA",
    "Thresholding",
]
