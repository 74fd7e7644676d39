"""How Sphinx builds the documentation: `make docs`, without warnings and without the network."""

import sys
import tomllib
from pathlib import Path

import tether

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project = "tether"
author = "The tether authors"
copyright = author
version = release = tether.__version__
repository = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
    "Repository"
]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.githubpages",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_line_page",
    "encrypted_kernels",
    "experiment_pages",
    "reference_pages",
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

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "remove_config_comments": True,
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
html_show_sourcelink = False
html_theme_options = {
    "github_url": repository,
    "logo": {"text": "tether"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
