"""The options of a run, and the store from which it resumes: one line of JSON per finished instance."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Key = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Study:
    """The extent of a run, and the folder of its results.

    Attributes
    ----------
    full : bool
        The paper's sizes and repetitions.
    output : Path
        Folder of this run.
    environment : str
        Machine, threads and versions, stored with every instance.
    data : Path or None
        Folder of real cohorts and gene sets.
    """

    full: bool
    output: Path
    environment: str
    data: Path | None = None

    def instances(
        self,
        part: str,
        keys: Sequence[Key],
        compute: Callable[..., list[Row]],
        weight: Callable[[Key], float] = lambda key: 1.0,
    ) -> list[Row]:
        """Return the rows of all instances, each with its key; finished instances of an earlier run are not repeated.

        `compute(**key)` gives the rows; `weight(key)` is the work of an instance, for the time left.
        """
        path = self.output / "instances" / f"{part}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = {_name(line["instance"]): line["rows"] for line in _lines(path)}
        todo = [key for key in keys if _name(key) not in known]
        if len(todo) < len(keys):
            print(f"  {part}: {len(keys) - len(todo)} of {len(keys)} instances kept from an earlier run in {path}")
        progress = Progress(part, sum(map(weight, todo)))
        with path.open("a", encoding="utf-8") as file:
            for key in todo:
                rows = known[_name(key)] = compute(**key)
                record = {"instance": key, "rows": rows, "environment": self.environment}
                file.write(json.dumps(record) + "\n")
                file.flush()
                progress.step(key, weight(key))
        return [key | row for key in keys for row in known[_name(key)]]


class Progress:
    """The progress of a part, printed every ten seconds or after a longer instance, with the time left."""

    EVERY = 10.0

    def __init__(self, part: str, total: float) -> None:
        self.part, self.total, self.done = part, total, 0.0
        self.begin = self.told = time.perf_counter()

    def step(self, key: Key, weight: float) -> None:
        """Count a finished instance."""
        self.done += weight
        now = time.perf_counter()
        if now - self.told >= self.EVERY:
            self.told, left = now, (now - self.begin) * (self.total / self.done - 1)
            what = ", ".join(f"{name} {value}" for name, value in key.items())
            print(f"  {self.part}: {100 * self.done / self.total:.0f} %, {what}, about {left:.0f} s left", flush=True)


def _name(key: Key) -> str:
    return json.dumps(key, sort_keys=True)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield finished instances; a line that an interrupted run left incomplete is skipped."""
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8")
    if text and not text.endswith("\n"):
        path.write_text(text + "\n", encoding="utf-8")
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue
