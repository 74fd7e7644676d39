"""The browser of the tests of this folder."""

from tests.view.headless_browser import driver  # noqa: F401
