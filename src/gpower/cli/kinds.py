"""How the text behind a flag becomes a value: one entry for each kind that a docstring may give a parameter."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer

Parser = Callable[[str], object]
#: The type of a flag, and further arguments of `typer.Option`.
Reading = tuple[type, dict[str, Any]]


def _separated(item: Parser, what: str = "a name", alone: bool = False) -> Parser:
    """A parser of values separated by commas; where one may stand `alone`, it is no list."""

    def values(text: str) -> object:
        try:
            found = [item(part.strip()) for part in str(text).split(",")]
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {what}, nor several separated by commas") from None
        return found[0] if alone and len(found) == 1 else found

    return values


_integers = partial(_separated, int, "a whole number")
_numbers = partial(_separated, float, "a number")


def _or(word: str, meaning: object, parser: Parser) -> Parser:
    """A parser that also knows a word."""
    return lambda text: meaning if text == word else parser(text)


def _name_or_position(text: str) -> int | str:
    return int(text) if str(text).isdecimal() else text


_COUNT = "a whole number, or a share up to 100%, such as 90%"


def _number_or_share(text: str) -> int | float:
    """A number of variables, or a share of the variance in percent or between 0 and 1."""
    if text.endswith("%"):
        if not 0 < (percent := float(text[:-1])) <= 100:
            raise ValueError(text)
        return percent / 100
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _lists(text: str) -> list[list[str]]:
    """Names separated by commas; lists of them, one for each component, by semicolons."""
    return [[name.strip() for name in part.split(",") if name.strip()] for part in str(text).split(";")]


def _at_home(text: str | Path) -> Path:
    """A path whose ~ is a home folder; a shell leaves it as it is in --output=~/results."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # nobody is called so
        return Path(text)


def _precomputed(wanted: bool) -> str | None:
    return "precomputed" if wanted else None


def _parsed(parser: Parser, metavar: str) -> Reading:
    return str, {"parser": parser, "metavar": metavar}


KINDS: dict[str, Reading] = {
    "bool": (bool, {}),
    "int": (int, {"metavar": "N"}),
    "float": (float, {"metavar": "X"}),
    "str": (str, {"metavar": "NAME"}),
    "path": (Path, {"parser": _at_home, "metavar": "FILE"}),
    "folder": (Path, {"parser": _at_home, "metavar": "DIR"}),
    "count": (int, {"count": True}),
    '{None, "precomputed"}': (bool, {"callback": _precomputed}),
    'int or "auto"': _parsed(_or("auto", "auto", int), "N|auto"),
    'int or sequence of int or "auto"': _parsed(_or("auto", "auto", _integers(alone=True)), "N,...|auto"),
    "int or sequence of int": _parsed(_integers(alone=True), "N,..."),
    "float or sequence of float": _parsed(_numbers(alone=True), "X,..."),
    "sequence of int": _parsed(_integers(), "N,..."),
    "sequence of float": _parsed(_numbers(), "X,..."),
    "sequence of str": _parsed(_separated(str), "NAME,..."),
    "sequence of int or str, or one each": _parsed(_lists, "NAME,...[;...]"),
    "sequence of labels or dict": _parsed(str, "FILE|COLUMN"),
    "sequence of float or dict": _parsed(str, "FILE"),
    "int, float or sequence of these": _parsed(_separated(_number_or_share, _COUNT, alone=True), "N,...|S%"),
    'int, float or sequence of these or "auto"': _parsed(
        _or("auto", "auto", _separated(_number_or_share, _COUNT, alone=True)), "N,...|S%|auto"
    ),
    "int or str": _parsed(_name_or_position, "NAME"),
    "sequence of int or str": _parsed(_separated(_name_or_position), "NAME,..."),
}


def reading_of(kind: str, default: object) -> Reading | None:
    """How to read a parameter of a kind, or of the first of several kinds; None for what nobody can type."""
    if kind in KINDS:
        return KINDS[kind]
    return _choice(kind, default) if kind.startswith("{") else KINDS.get(re.split(r" or |,", kind)[0])


def _choice(kind: str, default: object) -> Reading:
    """One of several words. The library knows which; None has a word too where it is not what happens anyway."""
    words = re.findall(r'"([^"]+)"', kind)
    if "None" not in kind or default is None:
        return str, {"metavar": "|".join(words)}
    return _parsed(_or("none", None, str), "|".join([*words, "none"]))
