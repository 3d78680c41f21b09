"""How Sphinx builds the documentation; `make docs` runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import arrowipc

ROOT = Path(__file__).resolve().parent.parent

project = "arrowipc"
author = "the arrowipc developers"
copyright = "the arrowipc developers, Apache License 2.0"
release = version = arrowipc.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
# Included files link to other files of the project; `type` in a docstring is a property of several classes.
suppress_warnings = ["myst.xref_missing", "ref.python"]

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name types in words
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
# The data source documents its options as people write them: a section for each direction.
napoleon_custom_sections = [
    ("Options of reading (names in any case)", "params_style"),
    ("Options of readStream, besides those of reading", "params_style"),
    ("Options of writing", "params_style"),
]
default_role = "py:obj"  # `name` in docstrings is a link where there is such a thing

html_theme = "furo"
html_title = "arrowipc"
html_static_path = ["_static"]
html_css_files = ["page.css"]
html_js_files = [("page.js", {"defer": "defer"})]
templates_path = ["_templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
#: The released versions, whose pages lie beside these: what git has tags of.
_tags = subprocess.run(["git", "tag", "-l", "v*", "--sort=-v:refname"], cwd=ROOT, capture_output=True, text=True)
html_context = {"versions": [each.removeprefix("v") for each in _tags.stdout.split()]}
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


# -- the command line's own words ----------------------------------------------------------------------------


def help_of(*words: str) -> str | None:
    """What ``arrowipc COMMAND --help`` prints; None where there is no command line."""
    command = [sys.executable, "-P", "-m", "arrowipc", *words, "--help"]  # -P: not this folder
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.stdout.rstrip() if done.returncode == 0 else None


class CommandHelp(SphinxDirective):
    """The help of the program, then of each of its commands in a section of its own."""

    def run(self) -> list[nodes.Node]:
        overview = help_of()
        if overview is None:
            return [nodes.paragraph(text="This build has no command line.")]
        listed = overview.partition("Commands:\n")[2].partition("\n\n")[0]
        found: list[nodes.Node] = [self.literal(overview)]
        for name in re.findall(r"^  (\w+)", listed, re.MULTILINE):
            title = nodes.title(text=f"arrowipc {name}")
            found.append(nodes.section("", title, self.literal(help_of(name) or ""), ids=[f"arrowipc-{name}"]))
        return found

    def literal(self, text: str) -> nodes.literal_block:
        return nodes.literal_block(text, text, language="text")


def setup(app):
    app.add_directive("command-help", CommandHelp)
