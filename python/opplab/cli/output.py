"""Old places of names that other branches still import; to go when they have moved."""

from opplab.cli.options import format_option
from opplab.report.text import FORMATS, print_table, render_table

__all__ = ["FORMATS", "format_option", "print_table", "render_table"]
