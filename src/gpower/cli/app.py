"""The application: what ``gpower`` alone and ``gpower --version`` say. Each command has a file beside this one."""

import inspect
import platform
from collections.abc import Callable
from functools import wraps
from shutil import get_terminal_size
from typing import Annotated

import typer

from gpower import __version__
from gpower._utils.optional import read_requirements
from gpower.cli.flags import HELP_PANELS, Flags, read_command_flags

CommandFunction = Callable[..., None]

_MIN_COLUMNS_FOR_PANELS = 80  # columns of a terminal, below which panels would break the names of flags

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if get_terminal_size().columns >= _MIN_COLUMNS_FOR_PANELS else None,
)


def _print_version(requested: bool) -> None:
    if requested:
        core = ", ".join(f"{wish.package} {wish.installed_version}" for wish in read_requirements() if not wish.extra)
        typer.echo(f"gpower {__version__}\nPython {platform.python_version()}, {core}, {platform.platform()}")
        raise typer.Exit


_VERSION_OPTION = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and stop.")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: Annotated[bool, _VERSION_OPTION] = False) -> None:
    """Sparse principal components: each uses a few named variables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command(**flag_groups: Flags) -> Callable[[CommandFunction], CommandFunction]:
    """Make a function the command of its name, with the flags that its signature and its docstring tell.

    Parameters
    ----------
    **groups
        Parameters of the function that stand for many flags each: they are dictionaries of the flags' values.
    """

    def registered(function: CommandFunction) -> CommandFunction:
        flags = [
            flag
            for group in (*flag_groups.values(), read_command_flags(function, flag_groups))
            for flag in group.values()
        ]
        flags.sort(key=lambda flag: [*HELP_PANELS].index(flag.panel))
        parameters = [flag.to_parameter() for flag in flags]

        @wraps(function)
        def run(**given: object) -> None:
            grouped = {group: {name: given.pop(name) for name in names} for group, names in flag_groups.items()}
            function(**given, **grouped)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(help=inspect.cleandoc(function.__doc__ or "").partition("\n")[0])(run)
        return run

    return registered
