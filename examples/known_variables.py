"""
Groups, required variables and costs
====================================

Genes belong to pathways, dummy columns belong to one factor, and some measurements cost more than others.
:doc:`Groups, required and excluded variables </known-variables>` restrict which variables are selected together.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpower import GPower, best_subset, sparsity_path
from gpower.datasets import load_pitprops, load_planted_expression

# %%
# Pathways: a component uses whole sets of genes.
table = load_planted_expression()
names = list(table.feature_names)
pathway = {gene: label for label, genes in table.gene_sets.items() for gene in genes}
groups = [pathway[gene] for gene in names]
model = GPower(3, cardinality=1, groups=groups).fit(table.X)
shares, sizes = model.explained_variance_ratio_, model.cardinality_
for share, sets, size in zip(shares, model.groups_used(), sizes, strict=True):
    print(f"{share:.1%} of the variance by {', '.join(sets)}, {size} genes")

# %%
# Exclude the known growth module, and include one stress gene in every component.
growth = [j for j, gene in enumerate(names) if pathway[gene] == "GROWTH"]
stress = names.index(table.gene_sets["STRESS"][0])
other = GPower(2, cardinality=6, include=[stress], exclude=growth).fit(table.X)
for z in other.components_:
    print(", ".join(names[j] for j in np.argsort(-np.abs(z))[:6]))

# %%
# Factors: three questions with three answers each give nine columns of zeros and ones, next to four numeric columns.
rng = np.random.default_rng(0)
size = 400
taste = rng.standard_normal(size)
answers = {
    "diet": np.digitize(taste + 0.4 * rng.standard_normal(size), [-0.5, 0.5]),
    "town": rng.integers(0, 3, size),
    "job": np.digitize(rng.standard_normal(size), [-0.4, 0.4]),
}
columns, factor = [], []
for question, answer in answers.items():
    for level in range(3):
        columns.append(answer == level)
        factor.append(question)
for number in ("age", "meat", "fish", "rent"):
    noise = rng.standard_normal(size)
    columns.append(noise + taste if number in ("meat", "fish") else noise)
    factor.append(number)
survey = np.column_stack(columns).astype(float)
loose = GPower(1, cardinality=4, scale=True).fit(survey)
whole = GPower(1, cardinality=3, scale=True, groups=factor).fit(survey)
chosen = np.flatnonzero(loose.components_[0])
print("single columns:", ", ".join(factor[j] for j in chosen))
print("whole factors:", ", ".join(whole.groups_used()[0]))
path = sparsity_path(survey, scale=True, groups=factor)
print("share of PCA by 1, 2, 3, … factors:", path.share_of_pca.round(2).tolist())

# %%
# Costs: moisture and density of a pit prop are measured in a laboratory, everything else with a tape or by eye.
props = load_pitprops()
laboratory = ("moist", "testsg", "ovensg")
costs = np.array([5.0 if name in laboratory else 1.0 for name in props.feature_names])
spent, bought = [], []
for budget in range(1, 21):
    panel = GPower(1, budget=budget, penalty_weights=costs, covariance="precomputed")
    panel.fit(props.correlation)
    used = np.flatnonzero(panel.components_[0])
    spent.append(costs[used].sum())
    bought.append(panel.explained_variance_ratio_[0])
    if budget in (5, 10, 20):
        expensive = [props.feature_names[j] for j in used if costs[j] > 1]
        result = f"a budget of {budget}: {used.size} measurements, {bought[-1]:.1%}"
        print(f"{result}, laboratory: {', '.join(expensive) or 'none'}")

# %%
# The fewest variables that explain 90 % of what all explain, and the best pair that contains the length, with proof.
few = GPower(1, cardinality=0.9, covariance="precomputed").fit(props.correlation)
share = few.objective_[0] / np.linalg.eigvalsh(props.correlation)[-1]
print(f"{few.cardinality_[0]} of 13 measurements explain {share:.1%} of what all do")
length = props.feature_names.index("length")
pair, proof = best_subset(
    props.correlation,
    cardinality=2,
    include=[length],
    covariance="precomputed",
)
used = ", ".join(props.feature_names[j] for j in np.flatnonzero(pair))
print(used, "proven" if proof.optimal else "not proven")

# %%
_, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for j, z in enumerate(model.components_, 1):
    left.bar(np.arange(z.size), z, width=1.5, label=model.groups_used()[j - 1][0])
left.set(xlabel="gene", ylabel="loading")
left.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
right.step(range(1, 21), bought, where="post")
right.set(xlabel="budget", ylabel="share of the variance")
plt.show()
