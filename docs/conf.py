"""The documentation site: the guides of this folder, a page for every public name, the examples as a gallery.

``make docs`` builds it. What can be read off the package is written down nowhere else: the pages below ``api`` are made
here from what the modules offer. Formulas become MathML, so that the pages need nothing from elsewhere.
"""

import inspect
import re
import sys
import warnings
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

import typer
from docutils import nodes
from latex2mathml.converter import convert

import gpower
from gpower.cli import app

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "gpower"
author = "The gpower developers"
copyright = author
version = release = gpower.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
exclude_patterns = ["_build", "api/names/*/*"]
suppress_warnings = ["config.cache"]
default_role = "code"
smartquotes = False  # "--option" is no dash, "l0" a word to be typed

myst_enable_extensions = ["dollarmath", "substitution"]
myst_substitutions = {"version": version}
myst_heading_anchors = 3
myst_fence_as_directive = ["math"]

templates_path = ["_templates"]
html_theme = "pydata_sphinx_theme"
html_title = f"gpower {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
numpydoc_show_class_members = False  # the template of a class does
toc_object_entries_show_parents = "hide"
numpydoc_xref_param_type = False
doctest_test_doctest_blocks = ""  # those of docstrings run with the suite, where the names of their module are known
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

#: The reader's order; examples that are not named come after these.
ORDER = (
    "first_steps",
    "choosing_the_number",
    "stable_variables",
    "known_of_samples",
    "text_topics",
    "single_cells",
    "larger_than_memory",
    "gene_sets",
    "own_penalty",
    "no_variable_twice",
    "parts_of_digits",
    "outlying_samples",
    "known_variables",
    "batches",
    "optimality",
    "other_methods",
    "figure_one",
    "optimiser",
)
#: Examples that other pages explain.
ELSEWHERE = ("constraints", "how_many_variables", "power_method", "shifted_power_method", "procrustes")
warnings.filterwarnings("ignore", message=".*non-interactive", category=UserWarning)  # a gallery shows its own pictures


class ReadingOrder:
    """The place of an example in the gallery."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> tuple[int, str]:
        """Where a file stands: by the list, then by name."""
        stem = file.removesuffix(".py")
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)


def use_palette(gallery_conf: dict, file: str) -> None:
    """Give curves and points that an example draws itself the colours of the figures of the package."""
    from cycler import cycler
    from matplotlib import rcParams

    from gpower.plotting.style import COLOURS

    rcParams["axes.prop_cycle"] = cycler(color=COLOURS)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": rf"^({'|'.join(ELSEWHERE)})\.py$",
    "within_subsection_order": "conf.ReadingOrder",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10_000,
    "write_computation_times": False,
    "ignore_repr_types": r"matplotlib|ndarray",  # the picture is the answer
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "conf.use_palette"),
}

#: Modules with a page of names, and what the page is called.
MODULES = {
    "gpower": "Models and searches",
    "gpower.model_selection": "How many variables",
    "gpower.certificates": "Certificates",
    "gpower.baselines.comparison": "Comparison",
    "gpower.baselines": "Other methods",
    "gpower.operators.explained_variance": "Measures of variance",
    "gpower.plotting": "Figures",
    "gpower.datasets": "Data sets and files",
    "gpower.estimators.single_cell": "Single cells",
    "gpower.analysis.association": "Association with metadata",
    "gpower.analysis.enrichment": "Gene sets",
    "gpower.solvers.ascent": "Watching an ascent",
    "gpower.penalties.elementary": "Penalties",
    "gpower.feasible_sets": "Feasible sets",
    "gpower.operators": "Matrices",
    "gpower.io.stores.open": "Stores",
    "gpower.io.stores.cache": "Decoded copies of stores",
    "gpower.operators.storage.dask": "Clusters",
}
#: Modules of which readers meet these names only.
SOME = {
    "gpower.solvers.ascent": ["AscentState", "Trace"],
    "gpower.analysis.association": ["Association", "associate"],
    "gpower.io.stores.open": ["open_source"],
}
#: Names that folders need from each other and that are not for users.
INNER = {
    "gpower.certificates": {"certificate_args", "certify_joint_variance"},
    "gpower.baselines.comparison": {"METHODS"},
    "gpower.operators.explained_variance": {"compute_captured_share", "project_samples", "total_variance"},
    "gpower.penalties.elementary": {"find_largest_rows", "get_min_divisor"},
    "gpower.feasible_sets": {
        "CorrelationStart",
        "Point",
        "RegularizedSet",
        "correlate_if_needed",
        "find_residual_directions",
    },
    "gpower.operators": {"find_registered_container"},
    "gpower.operators.storage.dask": {"is_dask_array"},
}


def public_names(module: str) -> list[str]:
    """What a module offers: its `__all__`, or what it or its parts define under a name without an underscore."""
    if module in SOME:
        return SOME[module]
    home, inner = import_module(module), INNER.get(module, set())
    if hasattr(home, "__all__"):
        names = {name for name in home.__all__ if module == "gpower" or name not in gpower.__all__}
        return sorted(names - inner)
    objects = {name: value for name, value in vars(home).items() if not name.startswith("_")}
    names = {
        name
        for name, value in objects.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and f"{value.__module__}.".startswith(f"{module}.")
    }
    return sorted(names - inner)


def members_of(module: str, name: str) -> tuple[list[str], list[str]]:
    """Methods and properties of a class: those to describe on its page, and those that scikit-learn describes.

    A property that the docstring of the class describes needs no second description.
    """
    home = getattr(import_module(module), name)
    own, borrowed = [], []
    for member in dir(home):
        value = inspect.getattr_static(home, member)
        method = inspect.isroutine(value) or isinstance(value, classmethod | staticmethod)
        described = re.search(rf"(?m)^ *(\w+, )*{member}(, \w+)*( : .*)?$", home.__doc__ or "")
        shown = method or (isinstance(value, property | cached_property) and not described)
        if shown and not re.match(r"_|get_metadata_routing|set_\w+_request", member):
            origin = next(base for base in home.__mro__ if member in vars(base)).__module__.partition(".")[0]
            {"gpower": own, "sklearn": borrowed}.get(origin, []).append(member)
    return own, borrowed


autosummary_context = {"members_of": members_of}


def write_pages() -> None:
    """A page for every module, with the table of its names, from which autosummary makes a page for each."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    for module, title in MODULES.items():
        names = "\n   ".join(public_names(module))
        page = f"""{title}
{"=" * len(title)}

.. automodule:: {module}
   :no-members:

.. currentmodule:: {module}

.. autosummary::
   :toctree: names

   {names}
"""
        file = folder / f"{module}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != page:
            file.write_text(page, encoding="utf-8")


def option_row(option) -> str:
    """The row of an argument or an option in the table of a command."""

    def cell(*words: str) -> str:
        return " ".join(f"`{word}`" for word in words).replace("|", "\\|")

    typed = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else []
    words = (option.help or "Show the help.").replace("|", "\\|")
    meaning = re.sub(r"(?<![\w-])--[a-z][\w-]*", r"`\g<0>`", words)
    default = option.default if option.show_default and option.default is not None else ""
    if isinstance(default, bool):  # a pair of switches is told by the one that holds, a single one is off
        default = typed[0 if default else 1] if option.secondary_opts else ""
    told = "" if default == "" or getattr(option, "count", False) else f" Default: {cell(default)}."
    value = (option.metavar or "").replace("|", " | ")
    return f"| {cell(*typed, *filter(None, [value]))} | {meaning}{told} |"


def commands_page() -> str:
    """The options of every command, as the command line itself knows them."""
    parts = ["# The command line\n\n`gpower COMMAND --help` says the same in a terminal.\n"]
    for name, command in typer.main.get_command(app).commands.items():
        words, _, example = command.help.partition(": gpower ")
        parts.append(f"## gpower {name}\n\n{words}" + (f":\n\n```\ngpower {example}\n```" if example else ""))
        panels = {panel: [] for panel in (None, "The components", "The answer", "The table", "The method")}
        for option in command.params:
            panel = option.rich_help_panel if option.param_type_name == "option" else None
            panels.setdefault(panel, []).append(option)
        for panel, options in panels.items():
            if options:
                heading = [f"**{panel}**\n"] if panel else []
                parts += ["", *heading, "| option | meaning |\n|---|---|", *map(option_row, options)]
        parts.append("")
    return "\n".join(parts)


write_pages()
(HERE / "command-line.md").write_text(commands_page(), encoding="utf-8")


#: Commands that the converter does not know, or has a sign for that fonts lack.
SPELLED = {r"\arg": r"\operatorname{arg}", r"\setminus": r"\mathbin{∖}"}


def mathml(formula: str, display: str = "inline") -> str:
    """A formula of LaTeX as MathML; bars stay as high as a letter, or an index would pull them down."""
    spelled = re.sub(r"\\[a-zA-Z]+", lambda found: SPELLED.get(found[0], found[0]), formula)
    converted = convert(spelled, display=display)
    if "\\" in converted:
        raise ValueError(f"A command that latex2mathml does not know: {formula}")
    return re.sub(r"<mo[^>]*>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false">\1</mo>', converted)


def visit_math(self, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def visit_math_block(self, node: nodes.math_block) -> None:
    """A formula of its own; a wide one scrolls."""
    lines = re.split(r"\n\s*\n", node.astext())
    formulas = "".join(mathml(line, "block") for line in lines if line.strip())
    self.body.append(f'<div class="formula">{formulas}</div>')
    raise nodes.SkipNode


def spell_bars(app, what, name, obj, options, lines: list[str]) -> None:
    """Bars and stars of formulas in docstrings, and a letter with a full stop, are themselves, and no markup."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`+[^`]*`+)", line)
            parts[::2] = [re.sub(r"\||(?<=‖)\*", lambda found: "\\" + found[0], part) for part in parts[::2]]
            lines[i] = re.sub(r"^(\s*)(?=[A-Za-z]\.(\s|$))", r"\1\\", "".join(parts))


def name_factories(app, what, name, obj, options, signature: str | None, returned: str | None):
    """What a data class makes anew for each object, where its signature says "<factory>"."""
    if not (is_dataclass(obj) and signature):
        return None
    made = {field.name: field.default_factory for field in fields(obj)}
    return re.sub(r"(\w+)=<factory>", lambda found: f"{found[1]}={made[found[1]].__name__}()", signature), returned


def setup(app) -> None:
    """Teach Sphinx to write MathML and to leave formulas alone."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_math, None), block_renderers=(visit_math_block, None))
    app.connect("autodoc-process-docstring", spell_bars)
    app.connect("autodoc-process-signature", name_factories)
