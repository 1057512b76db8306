"""Upper bounds, certificates of optimality and exact search; the guide "Certificates" has the proofs."""

from gpower.certificates.api import certify, certify_components
from gpower.certificates.arguments import certificate_args
from gpower.certificates.certificate import Bound, Certificate, Progress
from gpower.certificates.joint import certify_joint_variance, certify_total
from gpower.certificates.subset_search import best_subset

__all__ = [
    "Bound",
    "Certificate",
    "Progress",
    "best_subset",
    "certificate_args",
    "certify",
    "certify_components",
    "certify_joint_variance",
    "certify_total",
]
