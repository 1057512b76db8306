"""Files that tests write, and the check of a command that is refused."""

import csv

import numpy as np


def write_csv(path, X, columns=None, rows=None):
    """Write a table with the names of its columns and rows, if there are any, and return its path."""
    names = [] if rows is None else [[name] for name in rows]
    lines = np.asarray(X).tolist()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if columns is not None:
            writer.writerow([*(["name"] if names else []), *columns])
        writer.writerows([*name, *line] for name, line in zip(names or [[]] * len(lines), lines, strict=True))
    return path


def read_records(path):
    """Return the lines of a CSV file as dictionaries."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_gmt(path, gene_sets):
    """Write gene sets, and return the path of the file."""
    path.write_text("".join("\t".join([name, "made up", *genes]) + "\n" for name, genes in gene_sets.items()))
    return path


def assert_refused(result, *words, n_notes=0):
    """Check for exit code 1, no output, and one line of error, below some notes, which contains the words."""
    assert (result.exit_code, result.stdout) == (1, "")
    *notes, line = result.stderr.splitlines()
    assert [note[:6] for note in notes] == ["note: "] * n_notes
    assert line.startswith("error: ")
    for word in words:
        assert word in line
