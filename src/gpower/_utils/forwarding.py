"""Properties of an object that are those of another one, which it contains."""

from operator import attrgetter
from typing import Any


def forward(path: str, doc: str | None = None) -> Any:
    """Return a property that reads a member, an attribute or a method, of an attribute of the object.

    `path` names both, such as "base.shape". The default docstring refers to them.

    Examples
    --------
    >>> from gpower._utils.forwarding import forward
    >>> class Named:
    ...     base = "GPower"
    ...     upper = forward("base.upper")
    >>> Named().upper(), Named.upper.__doc__
    ('GPOWER', 'Return `upper` of `base`.')
    """
    owner, _, name = path.rpartition(".")
    return property(attrgetter(path), doc=doc or f"Return `{name}` of `{owner}`.")
