// A plot in closed details has no width: it gets its size when they open.
document.querySelectorAll("details").forEach((details) =>
  details.addEventListener("toggle", () =>
    details.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.Plots.resize(plot)),
  ),
);

// The plots over time have one axis: a zoom of one is one of all.
const overTime = [...document.querySelectorAll("figure[data-time] .js-plotly-plot")];
let following = false;
overTime.forEach((plot) =>
  plot.on("plotly_relayout", (change) => {
    if (following || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
    following = true;
    const range = [...plot.layout.xaxis.range];
    const others = overTime.filter((other) => other !== plot);
    Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": range }))).finally(() => {
      following = false;
    });
  }),
);
