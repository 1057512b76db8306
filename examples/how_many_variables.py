"""Choose the number of variables for the chemistry of 178 wines: path, cross-validation, stability selection.

``python how_many_variables.py FOLDER`` also draws the figures into that folder. The page docs/how-many-variables.md
explains the output. The table needs pandas, the figures matplotlib.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

from gpower import GPowerCV, SparsityPath, Stability, sparsity_path, stability_selection


@dataclass(frozen=True)
class Answer:
    """The result of each step."""

    path: SparsityPath
    choice: GPowerCV
    predictive: GPowerCV
    stable: Stability


def solve() -> Answer:
    """Compute a path of one component, two components by cross-validation with both criteria, and their stability."""
    X = load_wine(as_frame=True).data.rename(columns=lambda name: name.removesuffix("_of_diluted_wines"))
    path = sparsity_path(X, scale=True)
    choice = GPowerCV(2, scale=True, cv=10).fit(X)
    predictive = GPowerCV(2, scale=True, cv=10, criterion="prediction").fit(X)
    stable = stability_selection(X, choice.best_estimator_, n_subsamples=100)
    return Answer(path, choice, predictive, stable)


def print_results(answer: Answer) -> None:
    """Print the numbers of the page."""
    path, stable = answer.path, answer.stable
    print("variables  % of variance  % of PCA's")
    for k, ratio, share in zip(path.grid, path.explained_variance_ratio[:, 0], path.share_of_pca, strict=True):
        print(f"{k:9d}  {100 * ratio:13.1f}  {100 * share:10.1f}")
    for model in (answer.choice, answer.predictive):
        numbers = [
            f"{number} ({first} to {last})"
            for number, (first, last) in zip(model.cardinality_, model.cardinality_range_, strict=True)
        ]
        total = 100 * model.explained_variance_ratio_.sum()
        print(f"{model.criterion}: {' and '.join(numbers)} variables, {total:.1f} % of the variance")
    for j, row in enumerate(stable.model.components_):
        chance = stable.expected_false_selections[j]
        print(f"component {j + 1}: {stable.selected[j].sum()} selected, at most {chance:.1f} by chance")
        for i in np.argsort(-stable.frequency[j], kind="stable")[: np.count_nonzero(stable.frequency[j])]:
            print(f"  {stable.feature_names[i]:20s} {row[i]:+.2f}  {100 * stable.frequency[j, i]:3.0f} % of the halves")


def draw(answer: Answer, folder: Path) -> None:
    """Draw the three figures of the page."""
    from gpower.plotting import plot_cv, plot_stability, plot_tradeoff, save_figure

    save_figure(plot_tradeoff(answer.path), folder / "tradeoff.png")
    save_figure(plot_cv(answer.choice), folder / "cross-validation.png")
    save_figure(plot_stability(answer.stable), folder / "stability.png")


def main(arguments: list[str] | None = None) -> Answer:
    """Compute and print the results, and draw the figures if a folder is given."""
    arguments = sys.argv[1:] if arguments is None else arguments
    answer = solve()
    print_results(answer)
    if arguments:
        draw(answer, Path(arguments[0]))
    return answer


if __name__ == "__main__":
    main()
