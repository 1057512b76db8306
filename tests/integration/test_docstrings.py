"""Docstrings of the reference: their examples can be pasted, and all parameters are described."""

import ast
import builtins
import doctest
import inspect
import re
from importlib import import_module

import pytest
from tests.integration.test_reference import MODULES, NAMES

from gpower.baselines.comparison import METHODS, compare

THINGS = {f"{module}.{name}": getattr(import_module(module), name) for module, name in NAMES}
FUNCTIONS = {name: thing for name, thing in THINGS.items() if inspect.isfunction(thing)}
ERRORS = {name for name, thing in THINGS.items() if inspect.isclass(thing) and issubclass(thing, Exception)}
MEMBERS = {
    f"{name}.{word}": member
    for name, thing in THINGS.items()
    if inspect.isclass(thing)
    for word, member in inspect.getmembers(thing)
    if not word.startswith("_") and (isinstance(member, property) or inspect.isfunction(member))
}
TEXTS = {
    name: inspect.getdoc(thing) or ""
    for name, thing in {**{name: import_module(name) for name in MODULES}, **THINGS, **MEMBERS}.items()
}


def section(thing, title):
    """The names that a section of a docstring describes; None where there is no such section."""
    found = re.search(rf"(?ms)^{title}\n-+\n(.*?)(?=^[^\n]+\n-+$|\Z)", inspect.getdoc(thing) or "")
    if found is None:
        return None
    entries = re.findall(r"(?m)^(\S.*?)(?: : .*)?$", found[1])
    return {name.strip("*") for entry in entries for name in entry.split(", ")}


def parameters(thing):
    """The names of a signature, but for the first of a method."""
    return set(inspect.signature(thing).parameters) - {"self", "cls"}


def unknown(source):
    """Names that a program loads and gets from nowhere."""
    bound, loaded = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.partition(".")[0])
    return loaded - bound


@pytest.mark.parametrize("name", THINGS)
def test_an_example_imports_what_it_uses(name):
    """Doctests of a module see its names; who pastes an example does not have them."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(THINGS[name], name)
    assert any(test.examples for test in tests)
    for test in tests:
        assert not unknown("".join(example.source for example in test.examples)), test.name


@pytest.mark.parametrize("name", sorted(set(THINGS) - ERRORS))
def test_every_parameter_is_described_and_every_described_one_exists(name):
    thing = THINGS[name]
    said = section(thing, "Parameters") or set()
    held = section(thing, "Attributes") or set() if inspect.isclass(thing) else set()  # of a result, what it is made of
    assert parameters(thing) <= said | held
    assert said <= parameters(thing)


def test_a_method_that_describes_parameters_describes_all():
    said = {name: section(member, "Parameters") for name, member in MEMBERS.items() if inspect.isfunction(member)}
    described = {name: names for name, names in said.items() if names is not None}
    assert described
    assert described == {name: parameters(MEMBERS[name]) for name in described}


def test_no_attribute_is_listed_without_words():
    """Pages of classes that describe no attributes list properties, and what is None in the class."""
    classes = [thing for thing in THINGS.values() if inspect.isclass(thing) and section(thing, "Attributes") is None]
    assert classes
    bare = [(cls, word) for cls in classes for word, value in inspect.getmembers(cls) if value is None]
    assert not [(cls, word) for cls, word in bare if not word.startswith("_")]


def test_a_function_says_what_it_returns():
    nothing = {name for name, thing in FUNCTIONS.items() if inspect.signature(thing).return_annotation == "None"}
    assert {name for name, thing in FUNCTIONS.items() if not section(thing, "Returns")} == nothing


def test_an_object_of_ours_that_is_returned_is_described_in_a_line():
    ours = {name.rpartition(".")[2] for name, thing in THINGS.items() if inspect.isclass(thing)}
    returned = {name: re.search(r"Returns\n-+\n(\w+)\n(.*)", TEXTS[name]) for name in FUNCTIONS}
    entries = {name: entry[2] for name, entry in returned.items() if entry and entry[1] in ours}
    assert entries
    assert not [name for name, line in entries.items() if not line.startswith(" ")]


def test_no_paragraph_begins_as_an_item_of_a_list():
    """As the name "J. L. Horn" does, or a description that is one letter."""
    item = re.compile(r"(?:^|\n\n|\n-+\n|:.*\n) *\(?(?:\w|\d+|[ivxlcdm]+|[IVXLCDM]+|#)[.)](?=\s|$)")
    assert item.search("radius : float\n    r.\n")
    assert item.search("References\n----------\nJ. L. Horn (1965)")
    assert not [name for name, text in TEXTS.items() if item.search(text)]


def test_no_summary_ends_at_an_abbreviation():
    """Tables of the site show a docstring up to its first full stop before a space."""
    cut = re.compile(r"[^\n]*\b(eq|sec|fig|vs|cf)\. ")
    assert not [name for name, text in TEXTS.items() if cut.match(text)]


def test_no_docstring_sends_readers_to_a_file_of_the_repository():
    assert not [name for name, text in TEXTS.items() if re.search(r"docs/|\w\.md\b", text)]


def test_keys_of_papers_are_explained_where_they_stand():
    cited = {name for name, text in TEXTS.items() if "JNRS10" in text and name not in MEMBERS}
    cited |= {name.rpartition(".")[0] for name, text in TEXTS.items() if "JNRS10" in text and name in MEMBERS}
    assert cited
    assert not [name for name in cited if not re.search(r"\[JNRS10\] (is )?Journée", TEXTS[name])]


def test_compare_lists_its_methods():
    entry = re.search(r"(?s)\nmethods : .*?\n(.*?)\nconstraint", inspect.getdoc(compare))[1]
    assert re.findall(r'"([\w-]+)"', entry) == list(METHODS)
