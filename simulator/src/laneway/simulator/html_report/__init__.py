"""The report as one HTML file that needs nothing else: no script, no font, no request. Plots are SVG, drawn here.

``page`` lays it out; ``outcome`` is what goes in; ``svg`` and ``axes`` draw; each of the other files is one plot. Every plot
is bounded in size, however long the trace is: what would be too fine to be seen is averaged.
"""

from laneway.simulator.html_report.outcome import Outcome, outcome_of
from laneway.simulator.html_report.page import html_page

__all__ = ["Outcome", "html_page", "outcome_of"]
