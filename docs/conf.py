"""How Sphinx builds the documentation: `make docs`, without warnings and without the network."""

import sys
import tomllib
from pathlib import Path

import tether

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))
import generated_pages  # noqa: E402

project = "tether"
author = "The tether authors"
copyright = author
version = release = tether.__version__
repository = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
    "Repository"
]
WITH_CONTENTS = (
    "contributing",
    "experiments",
    "explanation",
    "how_to",
    "reference",
    "start",
    "tutorials",
)
"""The folders whose pages list their sections at the right; others have the width for tables."""

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
    "repository_links",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints", "gallery/*.md5", "gallery/**.ipynb"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
repository_links_base = f"{repository}/blob/main"

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True  # what a page saves stays out of the repository
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"
default_role = "py:obj"  # single backticks in docstrings link where the name has a page
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = generated_pages.addresses_of_classes()
numpydoc_xref_ignore = "all"  # words that are not names of tether stay words
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "thumbnail_size": (600, 400),
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "tether"
html_static_path = ["_static"]
html_css_files = ["tether.css"]
html_js_files = ["current_page.js"]
html_favicon = "_static/tether.svg"
html_show_sourcelink = False
html_theme_options = {
    "github_url": repository,
    "logo": {
        "text": "tether",
        "image_light": "_static/tether.svg",
        "image_dark": "_static/tether.svg",
        "alt_text": "tether",
    },
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "show_prev_next": True,
    "secondary_sidebar_items": {f"{folder}/**": ["page-toc"] for folder in WITH_CONTENTS},
    "collapse_navigation": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
