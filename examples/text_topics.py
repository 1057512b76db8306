"""
Text: topics of a few words
===========================

Components of a table of word counts are topics, and sparse components are topics of a few words. The texts are the
documentation of about 460 functions of SciPy. The table is sparse and is never densified.
"""

import inspect

import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer

from gpower import GPower
from gpower.plotting import plot_loadings

packages = (scipy.linalg, scipy.ndimage, scipy.signal, scipy.spatial, scipy.stats)
public = {getattr(package, name) for package in packages for name in package.__all__}
documentation = [inspect.getdoc(thing) or "" for thing in public if inspect.isroutine(thing)]
texts = sorted(text.partition("Notes\n-----")[0] for text in documentation)

# %%
# Use the words that occur in at least five texts and in fewer than a third of them.
words = TfidfVectorizer(
    stop_words="english",
    token_pattern=r"[a-z]{4,}",
    min_df=5,
    max_df=0.3,
    sublinear_tf=True,
)
X = words.fit_transform(texts)
share = X.nnz / X.shape[0] / X.shape[1]
print(f"{X.shape[0]} texts, {X.shape[1]} words, {share:.1%} of the table is not zero")

# %%
# Fit five topics of eight words. With ``positive=True`` a topic contains words that occur together.
model = GPower(5, cardinality=8, positive=True).fit(X)
names = words.get_feature_names_out()
topics = model.loadings(names)
for share, topic in zip(model.explained_variance_ratio_, topics, strict=True):
    print(f"{share:.1%}", *topic)

# %%
plot_loadings(model, names)
