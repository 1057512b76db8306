"""Baseline methods that the GPower paper compares with or builds on, with the estimator API of `GPower`.

=========================== ==================================================================
`Thresholding`              PCA with small loadings set to zero (Cadima and Jolliffe 1995)
`RotatedPCA`                varimax and quartimax rotation (Jolliffe 1995)
`SCoTLASS`                  maximum variance under ‖z‖₁ ≤ t (Jolliffe, Trendafilov and Uddin 2003)
`SPCA`                      elastic-net regressions (Zou, Hastie and Tibshirani 2006)
`RankOneSVD`                thresholded rank-one approximation (Shen and Huang 2008)
`Greedy`                    forward and backward selection (d'Aspremont et al. 2008; Moghaddam et al. 2006)
`DSPCA`                     semidefinite relaxation (d'Aspremont et al. 2007)
`MSPCA`                     orthogonal or uncorrelated components by a growing penalty (Cory-Wright and Pauphilet 2026)
`ScikitLearnSparsePCA`      scikit-learn's `SparsePCA`, with a calibrated penalty
=========================== ==================================================================
"""

from gpower.baselines.dspca import DSPCA as DSPCA
from gpower.baselines.greedy import Greedy as Greedy
from gpower.baselines.mspca import MSPCA as MSPCA
from gpower.baselines.rotation import RotatedPCA as RotatedPCA
from gpower.baselines.scotlass import SCoTLASS as SCoTLASS
from gpower.baselines.sklearn import ScikitLearnSparsePCA as ScikitLearnSparsePCA
from gpower.baselines.spca import SPCA as SPCA
from gpower.baselines.spca_rsvd import RankOneSVD as RankOneSVD
from gpower.baselines.thresholding import Thresholding as Thresholding
