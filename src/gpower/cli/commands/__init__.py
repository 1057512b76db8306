"""One module per command; importing a module registers its command, in the order of use that the help has."""

from gpower.cli.commands import (  # noqa: F401, I001
    fit,
    components,
    path,
    report,
    plot,
    transform,
    enrich,
    compare,
    inspect,
    demo,
    doctor,
)
