"""Pick the few runs of the authors' program that the tests replay.

Usage: python tests/golden/make_bundle.py GOLDEN_DIR, where GOLDEN_DIR holds authors_gpower.json and .npz.
"""

import json
import sys
from pathlib import Path

import numpy as np

KEYS = [
    "wide_c_20x50_s0__l1_m1_rho0.1_mu1__asis",
    "wide_c_20x50_s0__l1_m1_rho0_mu1__tight",
    "wide_c_20x50_s0__l1_m1_rho0.3_mu1__tight",
    "wide_c_20x50_s0__l0_m1_rho0.09_mu1__tight",
    "wide_c_20x50_s0__l1_m5_rho0.1_mu1__asis",
    "wide_c_20x50_s0__l1_m5_rho0.05-0.15-0.25-0.35-0.45_mu1__tight",
    "wide_c_20x50_s0__l0_m5_rho0.01_mu1__tight",
    "wide_c_20x50_s0__block_l1_m2_rho0.1_mu1__fixtight",
    "wide_c_20x50_s0__block_l0_m2_rho0.09_mudec__fixtight",
    "wide_c_20x50_s0__block_l1_m5_rho0.1_mudec__fixtight",
    "wide_c_20x50_s0__block_l0_m5_rho0.01_mu1__fixtight",
    "tall_c_80x30_s1__l1_m1_rho0.1_mu1__tight",
    "tall_c_80x30_s1__l0_m1_rho0.01_mu1__asis",
    "tall_c_80x30_s1__l0_m5_rho0.0025-0.0225-0.0625-0.1225-0.2025_mu1__tight",
    "tall_c_80x30_s1__block_l1_m5_rho0.1_mu1__fixtight",
    "tall_c_80x30_s1__block_l0_m2_rho0.01_mudec__fixtight",
]


def main(source: Path, target: Path, keys: list[str]) -> None:
    cases = {case["key"]: case for case in json.loads((source / "authors_gpower.json").read_text())}
    fields = ("key", "data", "penalty", "m", "block", "rho", "mu", "variant")
    with np.load(source / "authors_gpower.npz") as runs:
        data = {f"A/{cases[key]['data']}" for key in keys}
        names = [name for name in runs.files if name in data or name.rsplit("/", 1)[0] in keys]
        arrays = {name: runs[name] for name in names}
    header = json.dumps([{field: cases[key][field] for field in fields} for key in keys])
    np.savez_compressed(target, cases=np.array(header), **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_name("authors_gpower.npz"), KEYS)
