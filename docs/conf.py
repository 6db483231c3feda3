"""The documentation site: ``make site`` builds it into ``out/site``."""

import os

from opplab import _opplab

project = "opplab"
author = "the opplab authors"
copyright = "the opplab authors, GPL-2.0-only"
release = version = _opplab.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
# `tools/make_site.py` puts the index of kernel functions into the reference.
exclude_patterns = ["example.py", "kernel-index.md", "**.ipynb_checkpoints"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Notebooks hold what they printed; a test runs them.
nb_execution_mode = "off"
# `--option` stays as it is.
smartquotes = False
# What programs print is coloured as a shell's session as far as it reads as one.
suppress_warnings = ["myst.xref_missing", "myst.header", "ref.python", "misc.highlighting_failure"]

html_theme = "furo"
html_title = f"opplab {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = [path for path in [os.environ.get("OPPLAB_SITE_EXTRA")] if path]
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e99", "color-brand-content": "#0b6e99"},
    "dark_css_variables": {"color-brand-primary": "#6cc3e8", "color-brand-content": "#6cc3e8"},
}
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
