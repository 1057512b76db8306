"""Every table and figure of section 5 of [JNRS10], with the published and the measured numbers.

[JNRS10] M. Journée, Y. Nesterov, P. Richtárik, R. Sepulchre (2010). Generalized power method for sparse principal
component analysis. Journal of Machine Learning Research 11, 517–553.
"""
