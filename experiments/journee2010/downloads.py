"""Download files from public archives into a cache with their checksums. Needs pooch."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Progress", "cache_folder", "fetch_file"]

logger = logging.getLogger("gpower")

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all (None: not known)

_CHUNK = 1 << 18
_TIMEOUT = 60  # seconds without an answer


def cache_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of downloads: `folder`, the environment variable GPOWER_DATA, or the system's cache.

    Examples
    --------
    >>> from experiments.journee2010.downloads import cache_folder
    >>> cache_folder("mine").name
    'mine'
    """
    chosen = folder or os.environ.get("GPOWER_DATA")
    return Path(chosen) if chosen else Path(_pooch().os_cache("gpower"))


def fetch_file(
    url: str,
    *,
    name: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download a file of a public archive once.

    The archives publish no checksums. The first download is therefore trusted; its SHA-256 is written beside the
    file, as ``NAME.sha256``, and every later use is checked against it. A file that no longer agrees is downloaded
    again, and if the archive then sends something else, that is an error. A download that breaks off is continued
    by the next call.

    Parameters
    ----------
    url : str
        The address.
    name : str, optional
        The name in the cache; by default the last part of the address.
    folder : str or path-like, optional
        The cache: see `cache_folder`.
    progress : callable, optional
        Called with the bytes so far and the bytes in all (None where the server does not say).

    Returns
    -------
    Path
        The file.

    Raises
    ------
    OSError
        There is no network, the archive has no such file, or it sends another file than before.
    """
    pooch = _pooch()
    name = name or url.rsplit("/", 1)[-1]
    path = cache_folder(folder) / name
    record = path.with_name(f"{name}.sha256")
    known = record.read_text(encoding="ascii").split()[0] if record.exists() else None
    pooch.get_logger().setLevel(logging.WARNING)  # it would explain known_hash, which our caller has not set
    try:
        pooch.retrieve(url, known, fname=name, path=path.parent, downloader=_Resuming(path, progress))
    except ValueError as error:  # pooch's word for a checksum that differs
        raise OSError(
            f"{url} is not the file it was: its SHA-256 differs from the one in {record}. The archive has changed it, "
            f"or the transfer is damaged. Try again; to accept the new file, delete {record.name}."
        ) from error
    if known is None:
        record.write_text(f"{pooch.file_hash(str(path))}  {name}\n", encoding="ascii")
    return path


class _Resuming:
    """A downloader for pooch that continues an interrupted download if the file has not changed."""

    def __init__(self, path: Path, progress: Progress | None) -> None:
        self.part, self.progress = path.with_name(f"{path.name}.part"), progress
        self.version = path.with_name(f"{path.name}.part.version")  # what the server called the file it began to send

    def __call__(self, url: str, output_file: str, _: Any) -> None:
        import requests
        import urllib3

        done = self.part.stat().st_size if self.part.exists() and self.version.exists() else 0
        # As stored, not packed on the way: a .gz file is to stay one, and a text to stay text.
        headers = {"Accept-Encoding": "identity"}
        if done:
            headers |= {"Range": f"bytes={done}-", "If-Range": self.version.read_text(encoding="latin-1")}
        try:
            with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as answer:
                if done and answer.status_code == 416:  # nothing is left to send: the part was whole, or is stale
                    self.part.unlink()
                    return self(url, output_file, _)
                if not answer.ok:
                    raise OSError(f"{url}: the archive answers {answer.status_code} {answer.reason}.")
                self._write(answer, done if answer.status_code == 206 else 0)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise OSError(
                f"{url} could not be fetched ({type(error).__name__}). Without a network, get the file elsewhere and "
                f"put it at {self.part.with_suffix('')}; what has arrived so far is kept."
            ) from error
        os.replace(self.part, output_file)
        self.version.unlink(missing_ok=True)

    def _write(self, answer: Any, done: int) -> None:
        length = answer.headers.get("Content-Length")
        if not done:
            self.version.unlink(missing_ok=True)
            if version := answer.headers.get("ETag") or answer.headers.get("Last-Modified"):
                self.version.write_text(version, encoding="latin-1")
        total = done + int(length) if length else None
        logger.info("%s: %s bytes", self.part.stem, total or "unknown number of")
        with self.part.open("ab" if done else "wb") as file:
            while chunk := answer.raw.read(_CHUNK):
                file.write(chunk)
                done += len(chunk)
                if self.progress is not None:
                    self.progress(done, total)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError("Downloads need pooch: pip install pooch.") from None
    return pooch
