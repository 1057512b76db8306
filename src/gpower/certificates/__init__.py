"""How far from the best possible: upper bounds, certificates, and exact search; see ``docs/certificates.md``."""

from gpower.certificates.certificate import Bound, Certificate
from gpower.certificates.components import certifiable, certify, certify_components
from gpower.certificates.subset import Progress, best_subset

__all__ = ["Bound", "Certificate", "Progress", "best_subset", "certifiable", "certify", "certify_components"]
