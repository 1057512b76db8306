"""One module per command; importing a module registers its command."""

from gpower.cli.commands import (  # noqa: F401
    compare,
    components,
    demo,
    doctor,
    enrich,
    fit,
    inspect,
    path,
    plot,
    report,
    transform,
)
