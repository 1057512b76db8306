"""The application: ``gpower`` alone, ``gpower --version``, and the decorator that registers the commands."""

import inspect
import platform
from collections.abc import Callable
from functools import wraps
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from gpower import __version__
from gpower._utils.optional import read_requirements
from gpower.cli.command_files import CommandFiles
from gpower.cli.console import report_errors
from gpower.cli.flags import HELP_PANELS, Flag, Flags, read_command_flags

CommandFunction = Callable[..., None]

_MIN_COLUMNS_FOR_PANELS = 80  # on narrower terminals panels would break the names of flags

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if get_terminal_size().columns >= _MIN_COLUMNS_FOR_PANELS else None,
)


_DEBUG_FLAG = Flag("debug", "path", help="Write the traceback of an error into this file.")


def _print_version(requested: bool) -> None:
    """Print the versions of gpower, Python and the required packages, and exit, if requested."""
    if requested:
        required = [requirement for requirement in read_requirements() if not requirement.extra]
        packages = ", ".join(f"{requirement.package} {requirement.installed_version}" for requirement in required)
        typer.echo(f"gpower {__version__}\nPython {platform.python_version()}, {packages}, {platform.platform()}")
        raise typer.Exit


_VERSION_OPTION = typer.Option("--version", callback=_print_version, is_eager=True, help="Print the versions and stop.")


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: Annotated[bool, _VERSION_OPTION] = False) -> None:
    """Sparse principal components: each uses a few named variables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command(**flag_groups: Flags) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function as the command of its name, with flags made of its signature and docstring.

    Parameters
    ----------
    **flag_groups
        Flags that the function takes together, as one dictionary of values, in the parameter of that name.
    """

    def register(function: CommandFunction) -> CommandFunction:
        flags = [
            flag
            for group in (*flag_groups.values(), read_command_flags(function, flag_groups))
            for flag in group.values()
        ]
        flags.append(_DEBUG_FLAG)
        flags.sort(key=lambda flag: [*HELP_PANELS].index(flag.panel))
        parameters = [flag.to_parameter() for flag in flags]

        @wraps(function)
        def run(**values: Any) -> None:
            files = CommandFiles.from_values(function.__name__, values)
            with report_errors(files, values.pop("debug")):
                files.check()
                grouped = {group: {name: values.pop(name) for name in flags} for group, flags in flag_groups.items()}
                function(**values, **grouped)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(help=inspect.cleandoc(function.__doc__ or "").partition("\n")[0])(run)
        return run

    return register
