"""Results that a report shows in addition to the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpower.analysis.enrichment import Enrichment
from gpower.certificates import Certificate
from gpower.estimators.base import SparsePCAEstimator
from gpower.model_selection import ComponentTest, SparsityPath, Stability

#: Types of the results of which a page shows one, by field.
_RESULT_TYPES = {"enrichment": Enrichment, "path": SparsityPath, "stability": Stability, "test": ComponentTest}


@dataclass(frozen=True)
class ReportResults:
    """Optional results of the analyses of the same data, one of each type."""

    enrichment: Enrichment | None = None
    path: SparsityPath | None = None
    stability: Stability | None = None
    test: ComponentTest | None = None
    certificates: tuple[Certificate, ...] = ()

    @classmethod
    def from_iterable(cls, results: Iterable[object]) -> ReportResults:
        """Sort results by type; certificates may come as a list, as `certify` returns them, or one by one."""
        by_field: dict[str, Any] = {"certificates": ()}
        for result in results:
            name = next((name for name, kind in _RESULT_TYPES.items() if isinstance(result, kind)), None)
            certificates = result if isinstance(result, list | tuple) else [result]
            if name is not None:
                by_field[name] = result
            elif certificates and all(isinstance(each, Certificate) for each in certificates):
                by_field["certificates"] += (*certificates,)
            else:
                raise TypeError(
                    f"results: a report cannot show a {type(result).__name__}; give results of sparsity_path, "
                    "stability_selection, component_test, enrich or certify."
                )
        return cls(**by_field)

    def get_optimality_ratios(self, model: SparsePCAEstimator) -> dict[int, float]:
        """Return the certified share of the best possible variance of each component, by its index."""
        ratios = [each.ratio for each in self.certificates] or vars(model).get("optimality_ratio_", ())
        return {i: float(ratio) for i, ratio in enumerate(ratios)}

    def get_p_values(self, model: SparsePCAEstimator) -> dict[int, float]:
        """Return the p-value of each component of the model tested against permuted tables, by its index."""
        p_values = vars(model).get("component_p_values_", ())
        if self.test is not None:
            p_values = self.test.p_values[: self.test.n_tested]
        return {i: float(p) for i, p in enumerate(p_values[: len(model.components_)])}

    def check_shapes(self, shape: tuple[int, int]) -> None:
        """Raise if a result does not have the numbers of components and variables in `shape`."""
        shapes = {
            "Enrichment": self.enrichment and (len(self.enrichment.n_selected),),
            "SparsityPath": self.path and (self.path.n_components, self.path.n_features),
            "Stability": self.stability and self.stability.frequency.shape,
            "list of certificates": self.certificates and (len(self.certificates),),
        }
        for kind, sizes in shapes.items():
            for size, expected, unit in zip(sizes or (), shape, ("components", "variables"), strict=False):
                if size != expected:
                    raise ValueError(f"results: the {kind} is of {size} {unit}, but the model has {expected}.")
