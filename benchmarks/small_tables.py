"""``python -m benchmarks.small_tables``: times of model selection on small tables, as multiples of SparsePCA's time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import threadpoolctl
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import SparsePCA

from benchmarks.report import at_most, machine_line, print_table
from benchmarks.rulers import quiet
from gpower import GPower, GPowerCV, component_test, stability_selection

#: What is timed, and its largest multiple of the time of SparsePCA; None for no limit.
CALLS: dict[str, tuple[Callable[[np.ndarray], object], float | None]] = {
    "SparsePCA": (lambda X: SparsePCA(3, random_state=0).fit(X), None),
    "GPower": (lambda X: GPower(3, cardinality=5).fit(X), None),
    "component_test": (lambda X: component_test(X, 3, cardinality=5), 1.0),
    "stability_selection": (lambda X: stability_selection(X, n_components=3, cardinality=5), 1.0),
    "GPowerCV": (lambda X: GPowerCV(3).fit(X), 2.0),
}


def measure_processor_time(call: Callable[[np.ndarray], object], X: np.ndarray) -> float:
    """Return the seconds of the processor, on which other work on the machine has little influence."""
    begin = time.process_time()
    call(X)
    return time.process_time() - begin


def measure(load: Callable[[], object], repeats: int) -> None:
    """Print the least processor time on a standardised table, and the multiples of the first."""
    X = load().data  # type: ignore[attr-defined]
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with quiet():
        seconds = [min(measure_processor_time(call, X) for _ in range(repeats)) for call, _ in CALLS.values()]
    rows = [
        (name, each, each / seconds[0], "" if limit is None else at_most(each / seconds[0], limit))
        for (name, (_, limit)), each in zip(CALLS.items(), seconds, strict=True)
    ]
    print_table((f"{load.__name__} {X.shape[0]} x {X.shape[1]}", "seconds", "x SparsePCA", "goal"), rows)


def main() -> None:
    """Measure wine, digits and breast cancer."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_tables", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="timed repeats (3)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of BLAS and OpenMP (1)")
    options = parser.parse_args()
    with threadpoolctl.threadpool_limits(options.threads):
        print(machine_line(options.threads), end="\n\n")
        for load in (load_wine, load_digits, load_breast_cancer):
            measure(load, options.repeats)


if __name__ == "__main__":
    main()
