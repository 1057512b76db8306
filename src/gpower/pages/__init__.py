"""One HTML page of a model, to send and to explore. Needs bokeh, jinja2, matplotlib and openpyxl: the ``report`` extra.

`collected` gathers what the library says; charts and pictures draw it; a template puts it together.
"""

from gpower.pages.door import html_report

__all__ = ["html_report"]
