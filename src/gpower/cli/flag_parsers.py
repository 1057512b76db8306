"""Parsers of the text of a flag: one entry for each type that a docstring may give a parameter."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

Parser = Callable[[str], object]
#: Type of a flag, and further arguments of `typer.Option`.
OptionSpec = tuple[type, dict[str, Any]]


def _make_list_parser(parse_item: Parser, expected: str = "a name", allow_scalar: bool = False) -> Parser:
    """Return a parser of values separated by commas; with `allow_scalar` a single value is not a list."""

    def parse(text: str) -> object:
        try:
            values = [parse_item(part.strip()) for part in str(text).split(",")]
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {expected}, nor several separated by commas") from None
        return values[0] if allow_scalar and len(values) == 1 else values

    return parse


def _add_keyword(parser: Parser, keyword: str = "auto", value: object = "auto") -> Parser:
    """Return a parser that also accepts `keyword`, which stands for `value`."""
    return lambda text: value if text == keyword else parser(text)


def _parse_name_or_position(text: str) -> int | str:
    """Return a position if the text is digits, else the name."""
    return int(text) if str(text).isdecimal() else text


def _parse_count_or_share(text: str) -> int | float:
    """Return a number of variables, or a share of the variance typed in percent or between 0 and 1."""
    if text.endswith("%"):
        if not 0 < (percent := float(text[:-1])) <= 100:
            raise ValueError(text)
        return percent / 100
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _parse_name_lists(text: str) -> list[list[str]]:
    """Return lists of names: names are separated by commas, the lists of the components by semicolons."""
    return [[name.strip() for name in part.split(",") if name.strip()] for part in str(text).split(";")]


def _expand_home(text: str | Path) -> Path:
    """Return a path with ~ expanded, which a shell does not do in --output=~/results."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no user of that name
        return Path(text)


_parse_ints = _make_list_parser(int, "a whole number", allow_scalar=True)
_parse_floats = _make_list_parser(float, "a number", allow_scalar=True)
_parse_counts_or_shares = _make_list_parser(
    _parse_count_or_share, "a whole number, or a share up to 100%, such as 90%", allow_scalar=True
)


#: Parser and placeholder of the types whose text is converted.
_PARSED_KINDS: dict[str, tuple[Parser, str]] = {
    'int or "auto"': (_add_keyword(int), "N|auto"),
    'int or sequence of int or "auto"': (_add_keyword(_parse_ints), "N,...|auto"),
    "int or sequence of int": (_parse_ints, "N,..."),
    "float or sequence of float": (_parse_floats, "X,..."),
    "sequence of int": (_make_list_parser(int, "a whole number"), "N,..."),
    "sequence of float": (_make_list_parser(float, "a number"), "X,..."),
    "sequence of str": (_make_list_parser(str), "NAME,..."),
    "sequence of int or str, or one each": (_parse_name_lists, "NAME,...[;...]"),
    "sequence of labels or dict": (str, "FILE|COLUMN"),
    "sequence of float or dict": (str, "FILE"),
    "int, float or sequence of these": (_parse_counts_or_shares, "N,...|S%"),
    'int, float or sequence of these or "auto"': (
        _add_keyword(_parse_counts_or_shares),
        "N,...|S%|auto",
    ),
    "int or str": (_parse_name_or_position, "NAME"),
    "sequence of int or str": (_make_list_parser(_parse_name_or_position), "NAME,..."),
}
OPTION_SPECS: dict[str, OptionSpec] = {
    "bool": (bool, {}),
    "int": (int, {"metavar": "N"}),
    "float": (float, {"metavar": "X"}),
    "str": (str, {"metavar": "NAME"}),
    **{kind: (Path, {"parser": _expand_home, "metavar": "FILE"}) for kind in ("path", "new file", "picture")},
    "folder": (Path, {"parser": _expand_home, "metavar": "DIR"}),
    "count": (int, {"count": True}),
    '{None, "precomputed"}': (bool, {"callback": lambda is_on: "precomputed" if is_on else None}),
    **{kind: (str, {"parser": parser, "metavar": metavar}) for kind, (parser, metavar) in _PARSED_KINDS.items()},
}


def find_option_spec(kind: str, default: object) -> OptionSpec | None:
    """Return how to parse a type, or the first of several alternatives; None if its values cannot be typed."""
    if kind in OPTION_SPECS:
        return OPTION_SPECS[kind]
    return _make_choice_spec(kind, default) if kind.startswith("{") else OPTION_SPECS.get(re.split(r" or |,", kind)[0])


def _make_choice_spec(kind: str, default: object) -> OptionSpec:
    """Return the specification of a choice, which the library checks; None is typed "none" unless it is the default."""
    words = re.findall(r'"([^"]+)"', kind)
    if "None" not in kind or default is None:
        return str, {"metavar": "|".join(words)}
    return str, {"parser": _add_keyword(str, "none", None), "metavar": "|".join([*words, "none"])}
