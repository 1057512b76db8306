"""Names and numbers as a page shows them."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from gpower._utils.text import proven

LONGEST = 160  # characters of a name that a page shows
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def shown(name: object, most: int = LONGEST) -> str:
    r"""A name as text of a page: controls and halves of characters spelled out, a very long one without its middle.

    Marks of direction stay: the page keeps each name apart from what surrounds it.

    Examples
    --------
    >>> shown("a\x00b"), shown("x" * 9, most=6)
    ('a\\x00b', 'xxxx … xx')
    """
    text = str(name)
    if len(text) > most:
        text = f"{text[: most * 2 // 3]} … {text[-(most // 3) :]}"
    return text if text.isprintable() else "".join(repr(c)[1:-1] if _is_no_text(c) else c for c in text)


def _is_no_text(c: str) -> bool:
    """Whether a character is a control, half of one, or none at all: XML has no place for those."""
    return unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF


def embedded(content: Any) -> str:
    r"""JSON that may stand inside a script element: it cannot end it, nor begin a comment.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    return json.dumps(content, separators=(",", ":"), allow_nan=False).translate(_UNSAFE)


def percent(share: float) -> str:
    """A share of one in percent, three digits.

    Examples
    --------
    >>> percent(0.27134), percent(0.00021)
    ('27.1 %', '0.021 %')
    """
    return f"{100 * share:.3g} %"


def at_least(ratio: float) -> str:
    """A proven share of the best possible, which may be all of it.

    Examples
    --------
    >>> at_least(0.98765), at_least(1 - 1e-13)
    ('≥ 98.76 %', '100 %')
    """
    words = proven(ratio)
    return words if words == "100 %" else f"≥ {words}"


def signed(number: float, digits: int = 3) -> str:
    """A loading or a correlation.

    Examples
    --------
    >>> signed(-0.31234), signed(0.5, 2)
    ('−0.312', '+0.50')
    """
    return f"{number:+.{digits}f}".replace("-", "−")


def rounded(number: float | None) -> str:
    """Four digits of a number, a dash for none.

    Examples
    --------
    >>> rounded(1234.567), rounded(19731.2), rounded(float("nan")), rounded(-0.00012345)
    ('1235', '19731', '–', '−0.0001234')
    """
    if number is None or number != number:
        return "–"
    return (f"{number:.0f}" if 1e4 <= abs(number) < 1e6 else f"{number:.4g}").replace("-", "−")


def probability(p: float | None) -> str:
    """A p-value, two digits.

    Examples
    --------
    >>> probability(0.02439), probability(3.2e-12), probability(None)
    ('0.024', '3.2·10⁻¹²', '–')
    """
    if p is None or p != p:
        return "–"
    digits, _, power = f"{p:.2g}".partition("e-")
    return digits + (f"·10⁻{str(int(power)).translate(_RAISED)}" if power else "")
