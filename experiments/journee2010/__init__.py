"""Every table and figure of section 5 of [JNRS10], the published numbers beside ours.

[JNRS10] M. Journée, Y. Nesterov, P. Richtárik, R. Sepulchre (2010). Generalized power method for sparse principal
component analysis. Journal of Machine Learning Research 11, 517–553.
"""
