"""The application: what ``gpower`` alone and ``gpower --version`` say. Each command has a file beside this one."""

import inspect
import platform
from collections.abc import Callable
from functools import wraps
from shutil import get_terminal_size
from typing import Annotated

import typer

from gpower import __version__
from gpower._utils.optional import requirements
from gpower.cli.flags import PANELS, Flags, own_flags

Command = Callable[..., None]

_NARROW = 80  # columns of a terminal, below which panels would break the names of flags

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if get_terminal_size().columns >= _NARROW else None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        core = ", ".join(f"{wish.package} {wish.found}" for wish in requirements() if not wish.extra)
        typer.echo(f"gpower {__version__}\nPython {platform.python_version()}, {core}, {platform.platform()}")
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and stop.")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: Annotated[bool, _VERSION] = False) -> None:
    """Sparse principal components: each uses a few named variables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command(**groups: Flags) -> Callable[[Command], Command]:
    """Make a function the command of its name, with the flags that its signature and its docstring tell.

    Parameters
    ----------
    **groups
        Parameters of the function that stand for many flags each: they are dictionaries of the flags' values.
    """

    def registered(function: Command) -> Command:
        flags = [flag for group in (*groups.values(), own_flags(function, groups)) for flag in group.values()]
        flags.sort(key=lambda flag: [*PANELS].index(flag.panel))
        parameters = [flag.parameter() for flag in flags]

        @wraps(function)
        def run(**given: object) -> None:
            grouped = {group: {name: given.pop(name) for name in names} for group, names in groups.items()}
            function(**given, **grouped)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(help=inspect.cleandoc(function.__doc__ or "").partition("\n")[0])(run)
        return run

    return registered
