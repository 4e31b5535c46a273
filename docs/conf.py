"""Sphinx's configuration of the documentation's site; `make docs` builds it.

The source folder is the repository: a page's links are the same here, in an editor and on a forge.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pyspider_zk import __version__

project = "pyspider-zk"
version = release = __version__
author = copyright = "the authors of pyspider-zk"  # noqa: A001 - Sphinx's name

extensions = ["myst_parser", "sphinx_copybutton", "generator.navigation", "generator.generated"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "patches/README.md", "tests/*/README.md"]
exclude_patterns = ["build", "data", "node_modules", "test-output", ".*"]

# A link or anchor that leads nowhere is a warning, and `make docs` takes warnings for errors.
nitpicky = True
myst_heading_anchors = 4

html_show_search_summary = False  # it would load pages, which a browser forbids among files
smartquotes = False  # two hyphens begin an option
html_theme = "furo"
html_title = project
html_extra_path = ["generator/index.html"]
html_show_copyright = html_show_sphinx = html_copy_source = html_show_sourcelink = False
copybutton_prompt_text = "$ "
copybutton_copy_empty_lines = False
