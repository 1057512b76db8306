"""Damaged files for every reader: each read gives numbers or an error that names the file.

``make fuzz`` runs 2,000 of them, ``make fuzz FUZZ=long`` twenty times as many. Files are read in a process of their
own, so that a reader that crashes the interpreter or does not end is counted and the other cases go on.
"""

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from gpower import GPower, GPowerCV, SparsityPath, sparsity_path
from gpower._utils.files import FileError
from gpower.datasets import read_gmt, read_probe_genes, read_table
from gpower.io.stores.matrix_source import read_source_block
from gpower.io.stores.open import open_source

SHORT, LONG = 2_000, 40_000
PATIENCE = 60.0  # seconds that one file may take
MEMORY = 6 << 30  # bytes of address space in addition to the packages, because a damaged header may request any size
MOST_GROWN = 1 << 30  # bytes that reading a file of some kilobytes may take
X = np.random.default_rng(0).standard_normal((12, 6))
COUNTS = sp.random(12, 6, 0.4, random_state=0, format="csr")
GENES = [f"gene{j}" for j in range(6)]
OPTIONS = {"n_components": 2, "cardinality": 3}


# ---- healthy files, by kind: each function writes one into a folder and gives its path


def text(folder, suffix, separator=",", pack=None):
    lines = [separator.join(["id", *GENES])]
    lines += [separator.join([f"s{i}", *(f"{value:.4f}" for value in row)]) for i, row in enumerate(X)]
    content = "\n".join(lines).encode()
    path = folder / f"x{suffix}"
    path.write_bytes(pack(content) if pack else content)
    return path


def series_matrix(folder):
    lines = ['!Series_title\t"Made up"', "!series_matrix_table_begin", "\t".join(['"ID_REF"', *map(repr, GENES)])]
    lines += ["\t".join([f'"{i}_at"', *(f"{value:.4f}" for value in row)]) for i, row in enumerate(X)]
    path = folder / "GSE0_series_matrix.txt"
    path.write_text("\n".join([*lines, "!series_matrix_table_end", ""]))
    return path


def gct(folder):
    lines = ["#1.2", "12\t6", "\t".join(["Name", "Description", *GENES])]
    lines += ["\t".join([f"{i}_at", "made up", *(f"{value:.4f}" for value in row)]) for i, row in enumerate(X)]
    path = folder / "x.gct"
    path.write_text("\n".join(lines))
    return path


def workbook(folder):
    import openpyxl

    book = openpyxl.Workbook()
    for row in [GENES, *X.tolist()]:
        book.active.append(row)
    book.save(folder / "x.xlsx")
    return folder / "x.xlsx"


def gmt(folder):
    path = folder / "sets.gmt"
    path.write_text("A\tmade up\tgene0\tgene1\nB\t\tgene2\tgene3\tgene4\n")
    return path


def platform(folder):
    path = folder / "GPL0.annot"
    path.write_text("^Annotation\n#ID = probe\nID\tGene symbol\n1_at\tTP53\n2_at\tA///B\n3_at\tBRCA1\n")
    return path


def npy(folder, array):
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def npz(folder):
    np.savez_compressed(folder / "x.npz", X=X, genes=GENES)
    return folder / "x.npz"


def sparse(folder, kind):
    sp.save_npz(folder / "x.npz", COUNTS.asformat(kind))
    return folder / "x.npz"


def matrix_market(folder, matrix, suffix=".mtx", **options):
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, matrix, **options)
    path = folder / f"x{suffix}"
    path.write_bytes(gzip.compress(stream.getvalue()) if suffix.endswith(".gz") else stream.getvalue())
    return path


def parquet(folder):
    import pandas

    pandas.DataFrame(X, columns=GENES).to_parquet(folder / "x.parquet", row_group_size=5)
    return folder / "x.parquet"


def hdf5(folder):
    import h5py

    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(5, 6), compression="gzip")
    return folder / "x.h5"


def annotated(folder, suffix):
    import anndata

    adata = anndata.AnnData(COUNTS.copy())
    adata.var_names = GENES
    path = folder / f"x{suffix}"
    adata.write_h5ad(path) if suffix == ".h5ad" else adata.write_zarr(path)
    return path


def zarr_array(folder):
    import zarr

    zarr.save_array(str(folder / "x.zarr"), X)
    return folder / "x.zarr"


def model(folder):
    GPower(**OPTIONS).fit(X).save(folder / "model.npz")
    return folder / "model.npz"


def chosen(folder):
    GPowerCV(1, cv=2, cardinalities=[1, 3]).fit(X).save(folder / "cv.npz")
    return folder / "cv.npz"


def walked(folder):
    sparsity_path(X, n_components=1, cardinalities=[1, 3, 6]).save(folder / "path.npz")
    return folder / "path.npz"


def checkpoint(folder):
    GPower(**OPTIONS, checkpoint=folder / "fit.npz").fit(X)
    return folder / "fit.npz"


# ---- the reader of each kind


def use_source(path):
    source = open_source(path)
    return read_source_block(source, 0, source.shape[source.axis])


def use_model(path, kind=GPower):
    loaded = kind.load(path)
    answer = [loaded.components_, loaded.transform(X), loaded.loadings()]
    loaded.save(path)
    return answer


def use_path(path):
    found = SparsityPath.load(path)
    found.columns()
    scores = [solution.transform(X) for solution in found]
    sparsity_path(X, n_components=1, cardinalities=[1, 3, 6], resume=found)
    return scores


def use_checkpoint(path):
    resumed = GPower(**OPTIONS, checkpoint=path, resume=True).fit(X)
    GPower(**OPTIONS, checkpoint=path).fit(X)
    return resumed.components_


KINDS = {
    "csv": (lambda folder: text(folder, ".csv"), read_table),
    "tsv": (lambda folder: text(folder, ".tsv", "\t"), read_table),
    "csv.gz": (lambda folder: text(folder, ".csv.gz", pack=gzip.compress), read_table),
    "csv.bz2": (lambda folder: text(folder, ".csv.bz2", pack=bz2.compress), read_table),
    "csv.xz": (lambda folder: text(folder, ".csv.xz", pack=lzma.compress), read_table),
    "series matrix": (series_matrix, read_table),
    "gct": (gct, read_table),
    "gene sets": (gmt, read_gmt),
    "platform": (platform, read_probe_genes),
    "npy": (lambda folder: npy(folder, X), read_table),
    "npy in blocks": (lambda folder: npy(folder, np.asfortranarray(X)), use_source),
    "npz": (npz, read_table),
    **{
        f"npz {kind}": (lambda folder, kind=kind: sparse(folder, kind), read_table)
        for kind in ("csr", "csc", "coo", "bsr", "dia")
    },
    "mtx": (lambda folder: matrix_market(folder, COUNTS), read_table),
    "mtx dense": (lambda folder: matrix_market(folder, X), read_table),
    "mtx pattern": (lambda folder: matrix_market(folder, COUNTS, field="pattern"), read_table),
    "mtx.gz": (lambda folder: matrix_market(folder, COUNTS, ".mtx.gz"), read_table),
    "parquet": (parquet, read_table),
    "parquet in blocks": (parquet, use_source),
    "HDF5": (hdf5, use_source),
    "h5ad": (lambda folder: annotated(folder, ".h5ad"), use_source),
    "zarr": (zarr_array, use_source),
    "AnnData in zarr": (lambda folder: annotated(folder, ".zarr"), use_source),
    "model": (model, use_model),
    "cross-validated model": (chosen, lambda path: use_model(path, GPowerCV)),
    "path": (walked, use_path),
    "checkpoint": (checkpoint, use_checkpoint),
} | ({"xlsx": (workbook, read_table)} if find_spec("openpyxl") else {})


# ---- damage


def cut(rng, content):
    return content[: rng.integers(len(content) + 1)]


def flipped(rng, content):
    damaged = bytearray(content)
    for at in rng.integers(len(damaged), size=rng.integers(1, 9)):
        damaged[at] ^= 1 << rng.integers(8)
    return bytes(damaged)


def overwritten(rng, content):
    at, length = rng.integers(len(content)), rng.integers(1, 33)
    filling = [b"\0" * length, b"\xff" * length, rng.bytes(length), b"9" * length, b"\x1b[2J" * 4]
    return content[:at] + filling[rng.integers(len(filling))] + content[at + length :]


def repeated(rng, content):
    lo, hi = sorted(rng.integers(len(content) + 1, size=2))
    return content[:hi] + content[lo:hi] * int(rng.integers(1, 4)) + content[hi:]


def removed(rng, content):
    lo, hi = sorted(rng.integers(len(content) + 1, size=2))
    return content[:lo] + content[hi:]


def misnumbered(rng, content):
    """Replace a number written in digits (a size, an index, a version) by another one."""
    found = list(re.finditer(rb"\d+", content))
    if not found:
        return flipped(rng, content)
    at = found[rng.integers(len(found))]
    other = [b"0", b"-1", b"99999999999", b"4294967296", b"18446744073709551616", b"1e999", b"nan", b"7", b""]
    return content[: at.start()] + other[rng.integers(len(other))] + content[at.end() :]


def mistyped(rng, content):
    """Replace or remove a word of a header."""
    found = list(re.finditer(rb"[A-Za-z_]{3,}", content))
    if not found:
        return flipped(rng, content)
    at = found[rng.integers(len(found))]
    other = [b"null", b"[]", b"{}", b"__init__", b"transform", b"\x1b[31m", b"A" * 100_000, b"<M8[ns]", b"|O", b"real"]
    return content[: at.start()] + other[rng.integers(len(other))] + content[at.end() :]


DAMAGES = (cut, flipped, overwritten, repeated, removed, misnumbered, mistyped)


def damaged(rng, content):
    """Return content after one to three kinds of damage."""
    for _ in range(rng.integers(1, 4)):
        content = DAMAGES[rng.integers(len(DAMAGES))](rng, content) or b"x"
    return content


def damage_archive(rng, path, ways=range(6)):
    """Damage an archive under valid checksums: change, drop, double, rename or swap its members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    names, how = list(members), rng.choice(ways)
    one, two = names[rng.integers(len(names))], names[rng.integers(len(names))]
    if how == 0:
        del members[one]
    elif how == 1:
        members[one] = members[two]
    elif how == 2:
        members[f"{['__init__', 'transform', '__dict__', one[:-4] + ':x'][rng.integers(4)]}.npy"] = members[one]
    elif how == 3:
        array = np.atleast_1d(np.load(io.BytesIO(members[one])))
        stream = io.BytesIO()
        shapes = [array.ravel(), array[None], array.astype(complex) if array.dtype.kind in "fiub" else array, array[:0]]
        np.save(stream, shapes[rng.integers(4)])
        members[one] = stream.getvalue()
    else:
        members[one] = damaged(rng, members[one])
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    if how == 5:  # marked as encrypted
        content = bytearray(path.read_bytes())
        for mark in re.finditer(rb"PK\x01\x02", bytes(content)):
            content[mark.start() + 8] |= 1
        path.write_bytes(bytes(content))


def damage(rng, path):
    """Damage a file, or a file of a folder."""
    if path.suffix == ".npz" and rng.integers(3):
        damage_archive(rng, path)
        return
    if path.suffix == ".xlsx" and rng.integers(2):
        damage_archive(rng, path, ways=(0, 1, 4, 5))
        return
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        path = files[rng.integers(len(files))]
        if rng.integers(4) == 0:
            path.unlink()
            return
    content = path.read_bytes()
    if path.suffix == ".gz" and rng.integers(2):
        path.write_bytes(gzip.compress(damaged(rng, gzip.decompress(content))))
    else:
        path.write_bytes(damaged(rng, content))


# ---- one case, in a process of its own


def outcome(use, path):
    """Return the outcome of reading a damaged file: "read", "refused", or a description of the failure."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        use(path)
        end = "read"
    except ValueError as error:
        message = str(error)
        if isinstance(error, FileError) and path.name not in message:
            return f"a sentence without the file's name: {message[:200]!r}"
        if not message.isprintable() or len(message) > 1000:
            return f"a sentence that is not fit to print: {message[:200]!r}"
        end = "refused"
    except (OSError, ImportError, MemoryError) as error:
        end = "refused" if path.name in str(error) else f"{type(error).__name__} without the file's name: {error}"
    except Exception:
        return f"traceback: {traceback.format_exc()[-1500:]}"
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return end if grown < MOST_GROWN else f"{grown / 1e9:.1f} GB of memory"


def limit_memory():
    """Limit the address space of this process."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def run_batch(seed, first, last):
    """Run the cases first to last − 1, and print a line of JSON when each starts and ends."""
    warnings.simplefilter("ignore")
    limit_memory()
    with tempfile.TemporaryDirectory() as folder:
        healthy = {}
        for case in range(first, last):
            kind = list(KINDS)[case % len(KINDS)]
            make, use = KINDS[kind]
            if kind not in healthy:
                place = Path(folder, kind.replace(" ", "-"))
                place.mkdir()
                healthy[kind] = make(place)
                use(healthy[kind])
            print(json.dumps([case, kind, None]), flush=True)
            place = Path(folder, f"case-{case}")
            place.mkdir()
            path = place / healthy[kind].name
            (shutil.copytree if healthy[kind].is_dir() else shutil.copy)(healthy[kind], path)
            damage(np.random.default_rng([seed, case]), path)
            print(json.dumps([case, kind, outcome(use, path)]), flush=True)
            shutil.rmtree(place)


# ---- all cases


def run(seed, cases, step=100, program=__file__):
    """Return the outcomes of all cases by kind; a batch that dies is resumed after the case that killed it."""
    ends, odd, case = defaultdict(Counter), [], 0
    while case < cases:
        last = min(case + step, cases)
        command = [sys.executable, program, "--seed", str(seed), "--batch", str(case), str(last)]
        limit = PATIENCE + 2 * step
        try:
            done = subprocess.run(command, capture_output=True, timeout=limit, check=False)
            code, output, message = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, output, message = "no end", error.stdout or b"", b""
        lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"[")]
        for number, kind, end in lines:
            if end is not None:
                ends[kind][end if end in ("read", "refused") else "odd"] += 1
                if end not in ("read", "refused"):
                    odd.append((number, kind, end))
        if code == 0:
            case = last
            continue
        if code == "no end" and lines and lines[-1][2] is not None:  # a slow machine, not the next case
            case = lines[-1][0] + 1
            continue
        if not lines or lines[-1][2] is not None or (code != "no end" and code > 0):
            sys.exit(f"the batch {case} to {last} did not run:\n{message.decode(errors='replace')}")
        number, kind, _ = lines[-1]
        ends[kind]["signal"] += 1
        odd.append((number, kind, f"the interpreter ended with {code}: {message.decode(errors='replace')[-800:]}"))
        case = number + 1
    return ends, odd


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=LONG if os.environ.get("FUZZ") == "long" else SHORT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, nargs=2)
    given = parser.parse_args()
    if given.batch:
        run_batch(given.seed, *given.batch)
        return
    start = time.monotonic()
    ends, odd = run(given.seed, given.cases)
    print(f"{'kind':24}{'read':>8}{'refused':>9}{'odd':>6}{'signal':>8}")
    for kind, counts in ends.items():
        print(f"{kind:24}{counts['read']:8}{counts['refused']:9}{counts['odd']:6}{counts['signal']:8}")
    total = sum(ends.values(), Counter())
    seconds = time.monotonic() - start
    print(f"{total.total()} damaged files in {seconds:.0f} s: {total['read']} read, {total['refused']} refused with a")
    print(f"sentence, {total['odd']} tracebacks or worse, {total['signal']} signals.")
    for number, kind, end in odd[:40]:
        print(f"\ncase {number} ({kind}): {end}")
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
