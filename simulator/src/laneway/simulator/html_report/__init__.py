"""The report as one HTML file that makes no request: figures, parameters and plots, with Plotly's script inside.

``outcome`` is the input, ``page`` lays it out, and each plot has a module. A plot is plain data for Plotly (``plot``); only
rendering imports the library. The size of the data is bounded, however long the trace: what would be too fine to see is averaged.
"""

from laneway.simulator.html_report.outcome import Outcome, outcome_of
from laneway.simulator.html_report.page import html_page

__all__ = ["Outcome", "html_page", "outcome_of"]
