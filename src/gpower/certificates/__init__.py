"""How far from the best possible: bounds, certificates, and exact search; the guide "Certificates" has the proofs."""

from gpower.certificates.certificate import Bound, Certificate
from gpower.certificates.components import certifiable, certify, certify_components
from gpower.certificates.subset import Progress, best_subset
from gpower.certificates.total import certify_together, certify_total

__all__ = [
    "Bound",
    "Certificate",
    "Progress",
    "best_subset",
    "certifiable",
    "certify",
    "certify_components",
    "certify_together",
    "certify_total",
]
