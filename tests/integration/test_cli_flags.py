"""Flags come from the signatures and docstrings of the library; a new command is one function."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import gpower as package
from gpower import GPower, GPowerCV, Solver, compare, sparsity_path
from gpower.analysis.enrichment import enrich
from gpower.cli.app import app, command
from gpower.cli.commands import fit as fit_module
from gpower.cli.commands import path as path_module
from gpower.cli.console import OutputSink
from gpower.cli.flag_parsers import find_option_spec
from gpower.cli.flags import FLAG_HELP, FLAG_OVERRIDES, HELP_PANELS, Flag, read_library_flags
from gpower.cli.shared_flags import READ_TABLE_FLAGS, FlagGroups
from gpower.datasets import read_table


def list_options():
    """Return every option of every command as Typer sees it."""
    commands = typer.main.get_command(app).commands
    return [(name, option) for name, found in commands.items() for option in found.params if option.name != "help"]


class TestFromTheLibrary:
    @pytest.mark.parametrize(
        ("module", "found"),
        [
            *(("gpower", found) for found in (GPower, GPowerCV, Solver, sparsity_path, compare)),
            ("gpower.datasets", read_table),
            ("gpower.analysis.enrichment", enrich),
        ],
    )
    def test_defaults_are_those_of_the_signature(self, module, found):
        flags, parameters = read_library_flags(module, found.__name__), inspect.signature(found).parameters
        assert len(flags) > 2
        for parameter in set(flags) - {"drop", "drop_rows"}:
            default = parameters[parameter].default
            assert flags[parameter].default == (... if default is inspect.Parameter.empty else default)

    def test_parameters_that_cannot_be_typed_have_no_flag(self):
        flags = set(inspect.signature(fit_module.fit).parameters)
        assert set(inspect.signature(GPower).parameters) - flags == {"warm_start"}
        assert set(inspect.signature(Solver).parameters) - flags == {"callback"}
        left_out = {"X", "resume", "progress", "sample_weight", "covariates", "batch", "options"}
        assert set(inspect.signature(sparsity_path).parameters) - set(path_module._PATH_FLAGS) == left_out

    def test_kind_and_help_are_those_of_the_docstring(self):
        flag = read_library_flags("gpower", "GPower")["tol"]
        assert (flag.kind, flag.default) == ("float", 1e-6)
        assert flag.help == "Stop an ascent when the objective grows by no more than this, relatively."

    def test_parameters_of_the_estimator_have_its_help(self):
        estimator = read_library_flags("gpower", "GPower")
        flags = read_library_flags("gpower", "sparsity_path")
        assert flags["penalty"] == estimator["penalty"]
        assert flags["method"] == estimator["method"]
        assert flags["n_components"].help != estimator["n_components"].help
        assert flags["n_components"].default == 1

    def test_an_object_that_the_library_does_not_define_is_refused(self):
        with pytest.raises(LookupError, match="gpower neither defines nor imports GPowr"):
            read_library_flags("gpower", "GPowr")

    def test_every_flag_has_help(self):
        assert [(name, option.name) for name, option in list_options() if not option.help] == []

    def test_help_speaks_of_flags_and_files(self):
        """Names of parameters and attributes, and Python values, are not what a user of the command line types."""
        names = {"cardinality", "n_components", "memory_limit", "NaN", "None", "True", "False", "ndarray", "GPower"}
        python = re.compile(rf"""\b({"|".join(names)})\b|\w_(?![\w*])|\w=["'\w]|\w\(\w*\)|\[0, 1\)""")
        found = [(name, option.name, option.help) for name, option in list_options() if python.search(option.help)]
        assert found == []

    def test_exceptions_and_panels_name_flags_that_exist(self):
        names = {option.name for _, option in list_options()}
        assert set(FLAG_OVERRIDES) | set(FLAG_HELP) <= names
        assert set(" ".join(HELP_PANELS.values()).split()) <= names

    def test_nothing_heavy_is_imported_for_help(self):
        code = (
            "import sys\nfrom gpower.__main__ import main\nsys.argv[1:] = ['fit', '--help']\n"
            "try:\n    main()\nexcept SystemExit:\n    pass\n"
            "print(sorted({'numpy', 'scipy', 'sklearn', 'matplotlib', 'pandas'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert "--n-components" in done.stdout
        assert done.stdout.splitlines()[-1] == "[]"


class TestKinds:
    @pytest.mark.parametrize(
        ("kind", "text", "value"),
        [
            ("int, float or sequence of these", "60%", 0.6),
            ("int, float or sequence of these", "60%,3", [0.6, 3]),
            ("int or sequence of int", "5", 5),
            ("int or sequence of int", "30,20", [30, 20]),
            ("sequence of float", "0.5", [0.5]),
            ('int or "auto"', "auto", "auto"),
            ('int or sequence of int or "auto"', "3,2", [3, 2]),
            ("int or str", "3", 3),
            ("int or str", "gene id", "gene id"),
            ("sequence of int or str", "0, my age", [0, "my age"]),
            ("sequence of str", "spca, greedy", ["spca", "greedy"]),
            ('{"auto", "norms", None}', "none", None),
            ('{"auto", "norms", None}', "norms", "norms"),
        ],
    )
    def test_text_becomes_a_value(self, kind, text, value):
        assert find_option_spec(kind, "auto")[1]["parser"](text) == value

    @pytest.mark.parametrize(
        ("kind", "default", "words"),
        [
            ('{"l0", "l1"} or Penalty', "l0", "l0|l1"),
            ('{None, "paper"} or ndarray', None, "paper"),
            ('{"auto", None}', "auto", "auto|none"),
        ],
    )
    def test_words_are_listed(self, kind, default, words):
        assert find_option_spec(kind, default)[1]["metavar"] == words

    def test_the_first_of_several_kinds(self):
        assert find_option_spec("int, RandomState or None", None) == find_option_spec("int", None)
        assert find_option_spec("callable", None) is None

    @pytest.mark.parametrize(
        ("kind", "texts", "expected"),
        [
            ("sequence of int", ["a,b", "3,", ""], "a whole number"),
            ("int, float or sequence of these", ["150%", "0%", "-5%", "nan%"], "a share up to 100%"),
        ],
    )
    def test_text_that_is_not_a_number(self, kind, texts, expected):
        for text in texts:
            with pytest.raises(typer.BadParameter, match=rf"is not .*{expected}.*, nor several separated by commas"):
                find_option_spec(kind, None)[1]["parser"](text)

    @pytest.mark.parametrize(
        ("default", "typed"), [(True, "--fast/--no-fast"), (None, "--fast/--no-fast"), (False, "--fast")]
    )
    def test_switches(self, default, typed):
        assert Flag("fast", "bool", default).to_parameter().default.param_decls == (typed,)


class TestNewCommand:
    """A new command needs a function, its docstring, and one line that registers it."""

    @pytest.fixture
    def tally(self, monkeypatch):
        monkeypatch.setattr(app, "registered_commands", [*app.registered_commands])

        @command(has_json=True, reading=READ_TABLE_FLAGS)
        def tally(sink: OutputSink, flags: FlagGroups, data: Path, *, unit: str = "cells") -> None:
            """Count the cells of a table.

            Parameters
            ----------
            data : path
            unit : {"cells", "rows"}
                What to count.
            """
            table = read_table(data, transpose=flags.reading["transpose"])
            count = table.X.size if unit == "cells" else len(table.X)
            sink.print_result(lambda: count, lambda console: console.print(f"{count} {unit}"))

        return tally

    @pytest.fixture
    def data(self, tmp_path):
        (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
        return tmp_path / "t.csv"

    def test_it_runs(self, gpower, tally, data):
        assert gpower("tally", data).stdout == "6 cells\n"
        assert gpower("tally", data, "--unit", "rows", "--transpose").stdout == "2 rows\n"
        assert gpower("tally", data, "--json").stdout == "6\n"

    def test_it_has_the_shared_error_handling(self, gpower, tally, data):
        lost = gpower("tally", data.with_name("no.csv"))
        assert (lost.exit_code, lost.stderr) == (1, f"error: {data.with_name('no.csv')}: there is no such file.\n")
        assert gpower("tally").exit_code == 2

    def test_its_help_is_its_docstring(self, gpower, tally):
        help_text = " ".join(gpower("tally", "--help").stdout.replace("│", " ").split())
        assert "Count the cells of a table." in help_text
        assert "--unit cells|rows What to count. [default: cells]" in help_text
        assert "Parameters" not in help_text

    def test_a_parameter_without_a_kind_is_refused(self):
        def broken(sink: OutputSink, *, unit: str = "cells") -> None:
            """Count."""

        with pytest.raises(TypeError, match="unit: a value of type '' cannot be typed; use a type of"):
            command()(broken)


class TestPublicNames:
    def test_type_checkers_see_the_public_names(self):
        """The imports under TYPE_CHECKING are those of the lazy table."""
        tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
        imports = [
            node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("gpower")
        ]
        seen = {(node.module, alias.name, alias.asname) for node in imports for alias in node.names}
        assert seen == {(home, name, name) for home, names in package._HOMES.items() for name in names}

    def test_an_unknown_name_is_reported(self):
        with pytest.raises(AttributeError, match=re.escape("module 'gpower' has no attribute 'GPowr'")):
            package.GPowr  # noqa: B018
