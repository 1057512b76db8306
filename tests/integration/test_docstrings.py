"""Docstrings of the reference have examples that can be pasted and describe all parameters."""

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


def section_names(thing, title):
    """Return the names that a section of a docstring describes, None without such a section."""
    found = re.search(rf"(?ms)^{title}\n-+\n(.*?)(?=^[^\n]+\n-+$|\Z)", inspect.getdoc(thing) or "")
    if found is None:
        return None
    entries = re.findall(r"(?m)^(\S.*?)(?: : .*)?$", found[1])
    return {name.strip("*") for entry in entries for name in entry.split(", ")}


def parameters(thing):
    """Return the parameters of a signature without the first one of a method."""
    return set(inspect.signature(thing).parameters) - {"self", "cls"}


def undefined_names(source):
    """Return the names that a program uses without defining or importing them."""
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
    """A doctest sees the names of its module, but a pasted example does not."""
    tests = doctest.DocTestFinder(exclude_empty=True).find(THINGS[name], name)
    assert any(test.examples for test in tests if test.name == name)
    for test in tests:
        assert not undefined_names("".join(example.source for example in test.examples)), test.name


@pytest.mark.parametrize("name", sorted(set(THINGS) - ERRORS))
def test_every_parameter_is_described_and_every_described_one_exists(name):
    thing = THINGS[name]
    documented = section_names(thing, "Parameters") or set()
    attributes = (
        section_names(thing, "Attributes") or set() if inspect.isclass(thing) else set()
    )  # the fields of a result
    assert parameters(thing) <= documented | attributes
    assert documented <= parameters(thing)


def test_a_method_that_describes_parameters_describes_all():
    documented = {
        name: section_names(member, "Parameters") for name, member in MEMBERS.items() if inspect.isfunction(member)
    }
    described = {name: names for name, names in documented.items() if names is not None}
    assert described
    assert described == {name: parameters(MEMBERS[name]) for name in described}


def test_every_listed_attribute_is_described():
    """Pages of classes without an Attributes section list properties and class attributes that are None."""
    classes = [
        thing for thing in THINGS.values() if inspect.isclass(thing) and section_names(thing, "Attributes") is None
    ]
    assert classes
    bare = [(cls, word) for cls in classes for word, value in inspect.getmembers(cls) if value is None]
    assert not [(cls, word) for cls, word in bare if not word.startswith("_")]


def test_a_function_says_what_it_returns():
    nothing = {name for name, thing in FUNCTIONS.items() if inspect.signature(thing).return_annotation == "None"}
    assert {name for name, thing in FUNCTIONS.items() if not section_names(thing, "Returns")} == nothing


def test_no_summary_ends_at_an_abbreviation():
    """Tables of the site show a docstring up to its first full stop before a space."""
    cut = re.compile(r"[^\n]*\b(eq|sec|fig|vs|cf)\. ")
    assert not [name for name, text in TEXTS.items() if cut.match(text)]


def test_no_docstring_sends_readers_to_a_file_of_the_repository():
    assert not [name for name, text in TEXTS.items() if re.search(r"docs/|\w\.md\b", text)]


def test_keys_of_papers_are_explained_where_they_are_used():
    cited = {name for name, text in TEXTS.items() if "JNRS10" in text and name not in MEMBERS}
    cited |= {name.rpartition(".")[0] for name, text in TEXTS.items() if "JNRS10" in text and name in MEMBERS}
    assert cited
    assert not [name for name in cited if not re.search(r"\[JNRS10\] (is )?Journée", TEXTS[name])]


def test_compare_lists_its_methods():
    entry = re.search(r"(?s)\nmethods : .*?\n(.*?)\nconstraint", inspect.getdoc(compare))[1]
    assert re.findall(r'"([\w-]+)"', entry) == list(METHODS)
