"""Sparse principal component analysis by the generalized power method (GPower).

Principal components that each use a few named variables: ``GPower(n_components=3, cardinality=10).fit(X)``.
"""

TYPE_CHECKING = False  # importing typing takes most of the time before the command line can answer a signal
if TYPE_CHECKING:  # the same names once more, for type checkers and editors
    from gpower._utils.warnings import GPowerWarning as GPowerWarning
    from gpower.baselines.comparison import Comparison as Comparison
    from gpower.baselines.comparison import compare as compare
    from gpower.certificates import Certificate as Certificate
    from gpower.certificates import best_subset as best_subset
    from gpower.certificates import certify as certify
    from gpower.certificates import certify_total as certify_total
    from gpower.estimators.gpower import GPower as GPower
    from gpower.model_selection import ComponentTest as ComponentTest
    from gpower.model_selection import GPowerCV as GPowerCV
    from gpower.model_selection import SparsityPath as SparsityPath
    from gpower.model_selection import Stability as Stability
    from gpower.model_selection import component_test as component_test
    from gpower.model_selection import sparsity_path as sparsity_path
    from gpower.model_selection import stability_selection as stability_selection
    from gpower.report.html import html_report as html_report
    from gpower.solvers.ascent import AscentResult as AscentResult
    from gpower.solvers.ascent import maximize as maximize
    from gpower.validation.solver import Solver as Solver

# Names load with their first use, so that the command line answers --help without scikit-learn.
_HOMES = {
    "gpower.solvers.ascent": ("AscentResult", "maximize"),
    "gpower._utils.warnings": ("GPowerWarning",),
    "gpower.certificates": ("Certificate", "best_subset", "certify", "certify_total"),
    "gpower.baselines.comparison": ("Comparison", "compare"),
    "gpower.estimators.gpower": ("GPower",),
    "gpower.model_selection": (
        "ComponentTest",
        "GPowerCV",
        "SparsityPath",
        "Stability",
        "component_test",
        "sparsity_path",
        "stability_selection",
    ),
    "gpower.report.html": ("html_report",),
    "gpower.validation.solver": ("Solver",),
}
#: Modules of folders that users import from the package.
_MODULES = {"single_cell": "gpower.estimators.single_cell"}
__all__ = sorted(name for names in _HOMES.values() for name in names)
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'gpower' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
