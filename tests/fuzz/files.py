"""Damaged files for every reader: each read gives numbers or an error that names the file.

``make fuzz`` runs 2,000 of them, ``make fuzz FUZZ=long`` twenty times as many. Files are read in a process of their
own, so that a reader that crashes the interpreter or does not end is counted and the other cases go on.
"""

import argparse
import bz2
import gzip
import io
import lzma
import multiprocessing
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import anndata
import h5py
import numpy as np
import openpyxl
import pandas as pd
import scipy.io
import scipy.sparse as sp
import zarr

from gpower import GPower, GPowerCV, SparsityPath, sparsity_path
from gpower._utils.files import FileError
from gpower.datasets import read_gmt, read_probe_genes, read_table
from gpower.io.stores.matrix_source import read_source_block
from gpower.io.stores.open import open_source

PATIENCE = 60.0  # seconds that one file may take
MEMORY = 6 << 30  # bytes of address space in addition to the packages, because a damaged header may request any size
MOST_GROWN = 1 << 30  # bytes that reading a file of some kilobytes may take
X = np.random.default_rng(0).standard_normal((12, 6))
COUNTS = sp.random(12, 6, 0.4, random_state=0, format="csr")
GENES = [f"gene{j}" for j in range(6)]
OPTIONS = {"n_components": 2, "cardinality": 3}


# ---- healthy files, by kind: each function writes one into a folder and gives its path


def write(path, *lines, pack=bytes):
    path.write_bytes(pack("\n".join(lines).encode()))
    return path


def rows(name, separator="\t"):
    """Return a line for each row of the table, after its name."""
    return [separator.join([name.format(i), *(f"{value:.4f}" for value in row)]) for i, row in enumerate(X)]


def text(folder, suffix, separator=",", pack=bytes):
    heading = separator.join(["id", *GENES])
    return write(folder / f"x{suffix}", heading, *rows("s{}", separator), pack=pack)


def series_matrix(folder):
    heading = "\t".join(['"ID_REF"', *map(repr, GENES)])
    lines = ["!series_matrix_table_begin", heading, *rows('"{}_at"'), "!series_matrix_table_end", ""]
    return write(folder / "GSE0_series_matrix.txt", '!Series_title\t"Made up"', *lines)


def gct(folder):
    heading = "\t".join(["Name", "Description", *GENES])
    return write(folder / "x.gct", "#1.2", "12\t6", heading, *rows("{}_at\tmade up"))


def workbook(folder):
    book = openpyxl.Workbook()
    for row in [GENES, *X.tolist()]:
        book.active.append(row)
    book.save(folder / "x.xlsx")
    return folder / "x.xlsx"


def gmt(folder):
    return write(folder / "sets.gmt", "A\tmade up\tgene0\tgene1", "B\t\tgene2\tgene3\tgene4", "")


def platform(folder):
    probes = ["1_at\tTP53", "2_at\tA///B", "3_at\tBRCA1", ""]
    return write(folder / "GPL0.annot", "^Annotation", "#ID = probe", "ID\tGene symbol", *probes)


def saved(name, save):
    """Return a function that saves something under a name in a folder and returns its path."""

    def save_in(folder):
        save(folder / name)
        return folder / name

    return save_in


def matrix_market(folder, matrix, suffix=".mtx", pack=bytes, **options):
    stream = io.BytesIO()
    scipy.io.mmwrite(stream, matrix, **options)
    return write(folder / f"x{suffix}", stream.getvalue().decode(), pack=pack)


def hdf5(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(5, 6), compression="gzip")
    return folder / "x.h5"


def annotated(folder, suffix):
    adata = anndata.AnnData(COUNTS.copy())
    adata.var_names = GENES
    path = folder / f"x{suffix}"
    adata.write_h5ad(path) if suffix == ".h5ad" else adata.write_zarr(path)
    return path


# ---- the reader of each kind


def use_source(path):
    source = open_source(path)
    return read_source_block(source, 0, source.shape[source.axis])


def use_model(path, kind=GPower):
    loaded = kind.load(path)
    answer = [loaded.components_, loaded.transform(X), loaded.loadings()]
    loaded.save(path)
    return answer


def walk(**options):
    return sparsity_path(X, n_components=1, cardinalities=[1, 3, 6], **options)


def use_path(path):
    found = SparsityPath.load(path)
    found.columns()
    scores = [solution.transform(X) for solution in found]
    walk(resume=found)
    return scores


def use_checkpoint(path):
    resumed = GPower(**OPTIONS, checkpoint=path, resume=True).fit(X)
    GPower(**OPTIONS, checkpoint=path).fit(X)
    return resumed.components_


PARQUET = saved("x.parquet", lambda path: pd.DataFrame(X, columns=GENES).to_parquet(path, row_group_size=5))
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
    "npy": (saved("x.npy", lambda path: np.save(path, X)), read_table),
    "npy in blocks": (saved("x.npy", lambda path: np.save(path, np.asfortranarray(X))), use_source),
    "npz": (saved("x.npz", lambda path: np.savez_compressed(path, X=X, genes=GENES)), read_table),
    **{
        f"npz {kind}": (saved("x.npz", lambda path, kind=kind: sp.save_npz(path, COUNTS.asformat(kind))), read_table)
        for kind in ("csr", "csc", "coo", "bsr", "dia")
    },
    "mtx": (lambda folder: matrix_market(folder, COUNTS), read_table),
    "mtx dense": (lambda folder: matrix_market(folder, X), read_table),
    "mtx pattern": (lambda folder: matrix_market(folder, COUNTS, field="pattern"), read_table),
    "mtx.gz": (lambda folder: matrix_market(folder, COUNTS, ".mtx.gz", gzip.compress), read_table),
    "parquet": (PARQUET, read_table),
    "parquet in blocks": (PARQUET, use_source),
    "HDF5": (hdf5, use_source),
    "h5ad": (lambda folder: annotated(folder, ".h5ad"), use_source),
    "zarr": (saved("x.zarr", lambda path: zarr.save_array(str(path), X)), use_source),
    "AnnData in zarr": (lambda folder: annotated(folder, ".zarr"), use_source),
    "model": (saved("model.npz", GPower(**OPTIONS).fit(X).save), use_model),
    "cross-validated model": (
        saved("cv.npz", GPowerCV(1, cv=2, cardinalities=[1, 3]).fit(X).save),
        lambda path: use_model(path, GPowerCV),
    ),
    "path": (saved("path.npz", walk().save), use_path),
    "checkpoint": (saved("fit.npz", lambda path: GPower(**OPTIONS, checkpoint=path).fit(X)), use_checkpoint),
    "xlsx": (workbook, read_table),
}


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


def replace_match(rng, pattern, others, content):
    """Return content with one match of a pattern replaced, or with flipped bits if there is none."""
    found = list(re.finditer(pattern, content))
    if not found:
        return flipped(rng, content)
    at = found[rng.integers(len(found))]
    return content[: at.start()] + others[rng.integers(len(others))] + content[at.end() :]


def misnumbered(rng, content):
    """Replace a number written in digits (a size, an index, a version) by another one."""
    others = [b"0", b"-1", b"99999999999", b"4294967296", b"18446744073709551616", b"1e999", b"nan", b"7", b""]
    return replace_match(rng, rb"\d+", others, content)


def mistyped(rng, content):
    """Replace or remove a word of a header."""
    others = [b"null", b"[]", b"{}", b"__init__", b"transform", b"\x1b[31m", b"A" * 100_000, b"<M8[ns]", b"|O", b"real"]
    return replace_match(rng, rb"[A-Za-z_]{3,}", others, content)


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


# ---- one case


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


def run_case(rng, kind, use, path, expected):
    """Return the outcome of reading a file after damage."""
    damage(rng, path)
    return outcome(use, path)


# ---- all cases


def isolate(function, *arguments):
    """Return the result of a function in a process of its own, or a sentence that says how the process ended."""

    def send_result():
        warnings.simplefilter("ignore")
        limit_memory()
        sender.send(function(*arguments))

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_result)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(PATIENCE) else f"no end within {PATIENCE:.0f} s"
    except EOFError:
        process.join()
        return f"the interpreter ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()


def make_healthy(kind, folder):
    """Write a file of a kind, and return its path and what its reader gives."""
    make, use = KINDS[kind]
    folder.mkdir()
    path = make(folder)
    return path, use(path)


def run(run_case, seed, cases, folder):
    """Yield the number, the kind and the outcome of each case."""
    healthy = {kind: isolate(make_healthy, kind, folder / kind.replace(" ", "-")) for kind in KINDS}
    for case in range(cases):
        kind = list(KINDS)[case % len(KINDS)]
        source, expected = healthy[kind]
        path = folder / f"case-{case}" / source.name
        path.parent.mkdir()
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)
        rng = np.random.default_rng([seed, case])
        yield case, kind, isolate(run_case, rng, kind, KINDS[kind][1], path, expected)
        shutil.rmtree(path.parent)


def main(run_case, description, cases):
    """Run the cases of a program and print how many were read, refused or neither; exit with 1 if any was neither."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--cases", type=int, default=cases * (20 if os.environ.get("FUZZ") == "long" else 1))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, ends, odd = time.monotonic(), defaultdict(Counter), []
    with tempfile.TemporaryDirectory() as folder:
        for case, kind, end in run(run_case, given.seed, given.cases, Path(folder)):
            ends[kind][end if end in ("read", "refused") else "odd"] += 1
            if end not in ("read", "refused"):
                odd.append(f"case {case} ({kind}): {end}")
    print(f"{'kind':24}{'read':>8}{'refused':>9}{'odd':>6}")
    for kind, counts in ends.items():
        print(f"{kind:24}{counts['read']:8}{counts['refused']:9}{counts['odd']:6}")
    total = sum(ends.values(), Counter())
    seconds = time.monotonic() - start
    print(f"{given.cases} files in {seconds:.0f} s: {total['read']} read, {total['refused']} refused with a sentence,")
    print(f"{total['odd']} tracebacks, crashes, silent differences or worse.", *odd[:40], sep="\n\n")
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main(run_case, __doc__, 2_000)
