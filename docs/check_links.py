"""Every link of the built site that stays inside it leads to a page, and to a place on it.

``python check_links.py FOLDER`` prints those that do not, and fails if there are any.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and the places on it that can be linked to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file, self.links, self.places = file, set(), {"", "top"}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note links, pictures and ids."""
        given = dict(attributes)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links |= {given[name] for name in ("href", "src") if given.get(name)}


def broken(folder: Path) -> list[str]:
    """Links that lead nowhere, with the page they are on."""
    pages = {file.resolve(): Page(file) for file in folder.rglob("*.html") if "_static" not in file.parts}
    found = []
    for file, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue  # elsewhere
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            known = pages.get(target)
            missing = not target.exists() or (known and unquote(parts.fragment) not in known.places)
            if missing:
                found.append(f"{file.relative_to(folder.resolve())}: {link}")
    return found


if __name__ == "__main__":
    lost = broken(Path(sys.argv[1]))
    print(*lost, f"{len(lost)} links lead nowhere." if lost else "Every link inside leads somewhere.", sep="\n")
    sys.exit(bool(lost))
