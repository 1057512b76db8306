"""Compare three constraints on a planted table with two groups of variables, and on the pit props.

``python constraints.py FOLDER`` also draws the figures into that folder. The page docs/constraints.md explains the
output. The figures need matplotlib.
"""

import sys
from pathlib import Path

import numpy as np

from gpower import GPower, certify_total
from gpower.datasets import load_pitprops

CONSTRAINTS = (None, "orthogonal", "uncorrelated", "disjoint")


def planted(n_samples: int = 200) -> np.ndarray:
    """Return twelve variables: five follow one factor, five a second, correlated factor, and two are noise."""
    rng = np.random.default_rng(0)
    first = rng.standard_normal(n_samples)
    second = 0.6 * first + 0.8 * rng.standard_normal(n_samples)
    signal = np.column_stack([first] * 5 + [second] * 5 + [0 * first] * 2)
    return signal + 0.5 * rng.standard_normal(signal.shape)


def solve() -> dict[str, dict[str | None, GPower]]:
    """Fit two components of six planted variables, and three of five (disjoint: four) pit props variables."""
    X, S = planted(), load_pitprops().correlation
    pit = {"n_components": 3, "cardinality": 5, "covariance": "precomputed"}
    return {
        "planted": {constraint: GPower(2, cardinality=6, constraint=constraint).fit(X) for constraint in CONSTRAINTS},
        "pitprops": {constraint: GPower(**pit, constraint=constraint).fit(S) for constraint in CONSTRAINTS[:3]}
        | {"disjoint": GPower(**pit | {"cardinality": 4}, constraint="disjoint").fit(S)},
    }


def print_table(models: dict[str, dict[str | None, GPower]]) -> None:
    """Print the table of the page."""
    data = {"planted": planted(), "pitprops": load_pitprops().correlation}
    for name, fitted in models.items():
        print(f"{name:12s}  sum %  adjusted %  shared  |cos| of loadings  |cor| of scores  proven %")
        for constraint, model in fitted.items():
            Z, X = model.components_.T, data[name]
            S = X if name == "pitprops" else np.cov(X.T)
            own = 100 * np.trace(Z.T @ S @ Z) / np.trace(S)
            pairs = np.triu_indices(len(Z.T), 1)
            loadings, scores = (np.abs(m[pairs]).max() for m in (model.loading_correlation_, model.score_correlation_))
            proven = 100 * certify_total(model, X).ratio
            print(
                f"{constraint or 'none':12s}  {own:5.1f}  {100 * model.explained_variance_ratio_.sum():10.1f}  "
                f"{model.overlap_[pairs].sum():6d}  {loadings:17.2f}  {scores:15.2f}  {proven:8.1f}"
            )


def draw(models: dict[str, dict[str | None, GPower]], folder: Path) -> None:
    """Draw the loadings under each constraint."""
    from gpower.plotting import plot_loadings, save_figure

    names = {
        "planted": [f"first {i}" for i in range(1, 6)] + [f"second {i}" for i in range(1, 6)] + ["noise 1", "noise 2"]
    }
    names["pitprops"] = load_pitprops().feature_names
    for name, fitted in models.items():
        for constraint, model in fitted.items():
            save_figure(plot_loadings(model, names[name]), folder / f"{name}-{constraint or 'none'}.png")


if __name__ == "__main__":
    models = solve()
    print_table(models)
    if len(sys.argv) > 1:
        draw(models, Path(sys.argv[1]))
