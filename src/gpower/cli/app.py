"""The application: ``gpower`` alone, ``gpower --version``, and the decorator that registers the commands."""

import inspect
import platform
from collections.abc import Callable, Sequence
from functools import wraps
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from gpower import __version__
from gpower._utils.optional import read_requirements
from gpower.cli.command_files import CommandFiles
from gpower.cli.console import command_context
from gpower.cli.flags import HELP_PANELS, Flag, Flags, read_command_flags
from gpower.cli.shared_flags import FlagGroups, typed_params

CommandFunction = Callable[..., None]

_MIN_COLUMNS_FOR_PANELS = 80  # on narrower terminals panels would break the names of flags

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if get_terminal_size().columns >= _MIN_COLUMNS_FOR_PANELS else None,
)


_DEBUG_FLAG = Flag("debug", "new file", None, "Write the traceback of an error into this file.")
_JSON_FLAG = Flag("as_json", "bool", False, "Print everything as JSON.", long="--json")


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


def command(
    results: Sequence[str] = (), picture: str = "", *, has_json: bool = False, **flag_groups: Flags
) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function as the command of its name, with flags made of its signature and docstring.

    The function gets an `OutputSink` first, which knows the destinations of the results.

    Parameters
    ----------
    results : sequence of str
        Names of the files that the function writes into a folder, the flag --output.
    picture : str
        What the picture of the flag --plot shows, if there is this flag.
    has_json : bool
        Whether there is a flag --json.
    **flag_groups
        Flags that the function takes together, as one dictionary of values, in an attribute of its parameter `flags`.
    """
    output_flags = [_DEBUG_FLAG, *([_JSON_FLAG] if has_json else [])]
    if results:
        output_flags.append(Flag("output", "folder", None, f"Write {', '.join(results)} into this folder.", short="-o"))
    if picture:
        output_flags.append(Flag("plot", "picture", None, f"Draw {picture} into this .png, .pdf or .svg."))

    def register(function: CommandFunction) -> CommandFunction:
        own_flags = read_command_flags(function)
        own_and_grouped = [flag for group in (own_flags, *flag_groups.values()) for flag in group.values()]
        flags = {flag.name: flag for flag in (*output_flags, *own_and_grouped)}.values()

        @wraps(function)
        def run(context: typer.Context, **values: Any) -> None:
            sources = {name: context.get_parameter_source(name) for name in values}
            typed_params.set(frozenset(name for name, each in sources.items() if each and each.name == "COMMANDLINE"))
            files = CommandFiles(flags, values, results)
            with command_context(files, values.get("as_json", False)) as sink:
                own_values = {name: values[name] for name in own_flags}
                groups = {group: {name: values[name] for name in names} for group, names in flag_groups.items()}
                function(sink, **own_values, **{"flags": FlagGroups(**groups)} if groups else {})

        context_parameter = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        by_panel = sorted(flags, key=lambda flag: [*HELP_PANELS].index(flag.panel))
        parameters = [context_parameter, *(flag.to_parameter() for flag in by_panel)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(help=inspect.cleandoc(function.__doc__ or "").partition("\n")[0])(run)
        return run

    return register
