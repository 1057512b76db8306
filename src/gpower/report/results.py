"""What was found beside the model, told apart by what it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpower.analysis.enrichment import Enrichment
from gpower.certificates import Certificate
from gpower.model_selection import ComponentTest, SparsityPath, Stability


@dataclass(frozen=True)
class ReportResults:
    """What was found beside the model, each where it was asked for."""

    enrichment: Enrichment | None = None
    path: SparsityPath | None = None
    stability: Stability | None = None
    test: ComponentTest | None = None
    certificates: tuple[Certificate, ...] = ()

    @classmethod
    def from_iterable(cls, results: Iterable[object]) -> ReportResults:
        """Results by what they are; a list, as `certify` returns it, for what it holds, or what it holds one by one."""
        found: dict[str, Any] = {}
        for each in results:
            match each:
                case Enrichment():
                    found["enrichment"] = each
                case SparsityPath():
                    found["path"] = each
                case Stability():
                    found["stability"] = each
                case ComponentTest():
                    found["test"] = each
                case [Certificate(), *_]:
                    found["certificates"] = tuple(each)
                case Certificate():
                    found["certificates"] = (*found.get("certificates", ()), each)
                case _:
                    raise TypeError(
                        f"results: a page shows no {type(each).__name__}; give what sparsity_path, stability, "
                        "component_test, enrich and certify return."
                    )
        return cls(**found)

    def check_shapes(self, shape: tuple[int, int]) -> None:
        """Refuse results of another model."""
        sizes = {
            "Enrichment": self.enrichment and len(self.enrichment.n_selected),
            "SparsityPath": self.path and self.path.n_components,
            "Stability": self.stability and len(self.stability.frequency),
            "list of certificates": len(self.certificates) or None,
        }
        for kind, size in sizes.items():
            if size is not None and size != shape[0]:
                raise ValueError(f"results: the {kind} is of {size} components, but the model has {shape[0]}.")
        wide = (self.path and self.path.n_features, self.stability and self.stability.frequency.shape[1])
        for count in wide:
            if count is not None and count != shape[1]:
                raise ValueError(f"results: one is of {count} variables, but the model has {shape[1]}.")
