"""How the text behind a flag becomes a value: one entry for each kind that a docstring may give a parameter."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

__all__ = ["Reading", "reading_of"]

Parser = Callable[[str], object]
#: The type of a flag, and further arguments of `typer.Option`.
Reading = tuple[type, dict[str, Any]]


def _each(number: type[int] | type[float]) -> Callable[[str], list[float]]:
    """A parser of numbers separated by commas."""

    def numbers(text: str) -> list[float]:
        try:
            return [number(part) for part in str(text).split(",")]
        except ValueError:
            what = "a whole number" if number is int else "a number"
            raise typer.BadParameter(f"{text!r} is not {what}, nor several separated by commas") from None

    return numbers


def _one_or_each(number: type[int] | type[float]) -> Parser:
    """A parser of one number, or of one per component separated by commas."""

    def numbers(text: str) -> object:
        values = _each(number)(text)
        return values if len(values) > 1 else values[0]

    return numbers


def _or(word: str, meaning: object, parser: Parser) -> Parser:
    """A parser that also knows a word."""

    def value(text: str) -> object:
        return meaning if text == word else parser(text)

    return value


def _name_or_position(text: str) -> int | str:
    return int(text) if str(text).isdecimal() else text


def _names(text: str) -> list[str]:
    return [part.strip() for part in str(text).split(",")]


def _names_or_positions(text: str) -> list[int | str]:
    return [_name_or_position(name) for name in _names(text)]


def _precomputed(wanted: bool) -> str | None:
    return "precomputed" if wanted else None


def _parsed(parser: Parser, metavar: str) -> Reading:
    return str, {"parser": parser, "metavar": metavar}


KINDS: dict[str, Reading] = {
    "bool": (bool, {}),
    "int": (int, {"metavar": "N"}),
    "float": (float, {"metavar": "X"}),
    "str": (str, {"metavar": "NAME"}),
    "path": (Path, {"metavar": "FILE"}),
    "folder": (Path, {"metavar": "DIR"}),
    "count": (int, {"count": True}),
    '{None, "precomputed"}': (bool, {"callback": _precomputed}),
    'int or "auto"': _parsed(_or("auto", "auto", int), "N|auto"),
    'int or sequence of int or "auto"': _parsed(_or("auto", "auto", _one_or_each(int)), "N,...|auto"),
    "int or sequence of int": _parsed(_one_or_each(int), "N,..."),
    "float or sequence of float": _parsed(_one_or_each(float), "X,..."),
    "sequence of int": _parsed(_each(int), "N,..."),
    "sequence of float": _parsed(_each(float), "X,..."),
    "sequence of str": _parsed(_names, "NAME,..."),
    "int or str": _parsed(_name_or_position, "NAME"),
    "sequence of int or str": _parsed(_names_or_positions, "NAME,..."),
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
