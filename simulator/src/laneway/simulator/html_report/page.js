// A plot in closed details has no width: it gets its size when they open.
document.querySelectorAll("details").forEach((details) =>
  details.addEventListener("toggle", () =>
    details.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.Plots.resize(plot)),
  ),
);
