"""Names and numbers as a page shows them."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from gpower._utils.text import format_ratio

MAX_NAME_CHARACTERS = 160  # characters of a name that a page shows
_SUPERSCRIPT_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCRIPT_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def format_name(name: object, max_characters: int = MAX_NAME_CHARACTERS) -> str:
    r"""A name as text of a page: controls and halves of characters spelled out, a very long one without its middle.

    Marks of direction stay: the page keeps each name apart from what surrounds it.

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
    """Whether a character is a control, half of one, or none at all: XML has no place for those."""
    return unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF


def encode_script_json(content: Any) -> str:
    r"""JSON that may stand inside a script element: it cannot end it, nor begin a comment.

    Examples
    --------
    >>> encode_script_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_SCRIPT_ESCAPES)


def format_percent(share: float) -> str:
    """A share of one in percent, three digits.

    Examples
    --------
    >>> format_percent(0.27134), format_percent(0.00021)
    ('27.1 %', '0.021 %')
    """
    return f"{100 * share:.3g} %"


def format_lower_bound(ratio: float) -> str:
    """A proven share of the best possible, which may be all of it.

    Examples
    --------
    >>> format_lower_bound(0.98765), format_lower_bound(1 - 1e-13)
    ('≥ 98.76 %', '100 %')
    """
    words = format_ratio(ratio)
    return words if words == "100 %" else f"≥ {words}"


def format_signed(number: float, digits: int = 3) -> str:
    """A loading or a correlation.

    Examples
    --------
    >>> format_signed(-0.31234), format_signed(0.5, 2)
    ('−0.312', '+0.50')
    """
    return f"{number:+.{digits}f}".replace("-", "−")


def format_rounded(number: float | None) -> str:
    """Four digits of a number, a dash for none.

    Examples
    --------
    >>> format_rounded(1234.567), format_rounded(19731.2), format_rounded(float("nan")), format_rounded(-0.00012345)
    ('1235', '19731', '–', '−0.0001234')
    """
    if number is None or number != number:
        return "–"
    return (f"{number:.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}").replace("-", "−")


def format_p_value(p: float | None) -> str:
    """A p-value, two digits.

    Examples
    --------
    >>> format_p_value(0.02439), format_p_value(3.2e-12), format_p_value(None)
    ('0.024', '3.2·10⁻¹²', '–')
    """
    if p is None or p != p:
        return "–"
    digits, _, power = f"{p:.2g}".partition("e-")
    return digits + (f"·10⁻{str(int(power)).translate(_SUPERSCRIPT_DIGITS)}" if power else "")
