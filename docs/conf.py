"""Settings of the documentation site: `make docs` builds it from this folder.

`site_pages/` writes the pages that are made from the code (methods, reference) before Sphinx reads
the folder; sphinx-gallery runs the examples. Nothing that is built needs the network.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import gnncal

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from site_pages import methods, reference  # noqa: E402

methods.write_pages(HERE / "methods", HERE.parent / "results")
reference.write_index(HERE / "api")

project = "gnncal"
author = copyright = "The gnncal developers"
version = release = gnncal.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "site_pages.mathml",
    "site_pages.members",
    "site_pages.outside",
]
exclude_patterns = ["filled", "site_pages", "templates"]
templates_path = ["templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath", "fieldlist"]
myst_heading_anchors = 4

autosummary_generate = True
autosummary_filename_map = {  # where file names know no case, these would be one file each
    "gnncal.report": "gnncal.report-function",
    "gnncal_lab.datasets.FACTS": "gnncal_lab.datasets.FACTS-table",
}
autosummary_imported_members = False
autodoc_typehints = "none"  # numpydoc's sections name the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them
python_use_unqualified_type_names = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": os.environ.get("GNNCAL_EXAMPLES", r"\.py$"),
    "nested_sections": False,
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "image_srcset": ["2x"],
    "reference_url": {"gnncal": None},
    "doc_module": ("gnncal",),
    "backreferences_dir": None,
    "default_thumb_file": str(HERE / "images" / "gain.png"),
}

html_theme = "pydata_sphinx_theme"
html_title = f"gnncal {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_logo = html_favicon = "static/logo.svg"
highlight_language = "text"  # indented blocks are commands and their output
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "logo": {"text": f"gnncal {release}"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": []}
