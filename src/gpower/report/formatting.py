"""Formatting of names and numbers on a page."""

from __future__ import annotations

import re
import unicodedata

from gpower._utils.text import format_ratio

MAX_NAME_CHARACTERS = 160  # longer names are shown without their middle
_SUPERSCRIPT_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_name(name: object, max_characters: int = MAX_NAME_CHARACTERS) -> str:
    r"""Return a name as text of a page: control characters escaped, and a very long name without its middle.

    Marks of direction stay, because the page isolates each name from the text around it.

    Examples
    --------
    >>> format_name("a\x00b"), format_name("x" * 9, max_characters=6)
    ('a\\x00b', 'xxxx … xx')
    """
    text = str(name)
    if len(text) > max_characters:
        text = f"{text[: max_characters * 2 // 3]} … {text[-(max_characters // 3) :]}"
    return text if text.isprintable() else "".join(repr(c)[1:-1] if _is_forbidden_in_xml(c) else c for c in text)


def _is_forbidden_in_xml(c: str) -> bool:
    """Return whether XML forbids a character: a control character, a surrogate or a non-character."""
    return unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF


def keep_percent_signs(text: str) -> str:
    r"""Return text in which no line breaks between a number and its percent sign.

    Examples
    --------
    >>> keep_percent_signs("3.72 % of 5")
    '3.72\xa0% of 5'
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def format_lower_bound(ratio: float) -> str:
    """Format a lower bound on the share of the best possible variance; 100 % is exact.

    Examples
    --------
    >>> format_lower_bound(0.98765), format_lower_bound(1 - 1e-13)
    ('≥ 98.76 %', '100 %')
    """
    text = format_ratio(ratio)
    return text if text == "100 %" else f"≥ {text}"


def format_signed(number: float, digits: int = 3) -> str:
    """Format a loading or a correlation with its sign.

    Examples
    --------
    >>> format_signed(-0.31234), format_signed(0.5, 2)
    ('−0.312', '+0.50')
    """
    return f"{number:+.{digits}f}".replace("-", "−")


def format_rounded(number: float | None) -> str:
    """Format a number with four digits; a dash for None or NaN.

    Examples
    --------
    >>> format_rounded(1234.567), format_rounded(19731.2), format_rounded(float("nan")), format_rounded(-0.00012345)
    ('1235', '19731', '–', '−0.0001234')
    """
    if number is None or number != number:
        return "–"
    return (f"{number:.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}").replace("-", "−")


def format_p_value(p: float | None) -> str:
    """Format a p-value with two digits; a dash for None or NaN.

    Examples
    --------
    >>> format_p_value(0.02439), format_p_value(3.2e-12), format_p_value(None)
    ('0.024', '3.2·10⁻¹²', '–')
    """
    if p is None or p != p:
        return "–"
    digits, _, power = f"{p:.2g}".partition("e-")
    return digits + (f"·10⁻{str(int(power)).translate(_SUPERSCRIPT_DIGITS)}" if power else "")
