"""The application: what ``gpower`` alone and ``gpower --version`` say. Each command has a file beside this one."""

from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(
    help="Sparse principal components: each uses a few named variables.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from gpower import __version__

        typer.echo(f"gpower {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Sparse principal components: each uses a few named variables."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
