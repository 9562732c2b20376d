"""What the dashboards are made of: queries, panels and variables, as builders of Grafana's foundation SDK.

A counter is never plotted raw: `rate`, `per_hour` and `quantiles` are the ways to show one. A panel over time has few lines, however
many jobs there are; what has a row for each job is a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

COLUMNS = 24
TAG = "laneway"
_DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
NEEDS_DCGM = "Needs dcgm-exporter"
"""What a panel shows where there is none."""

_EVENT_WINDOW = "1h"
"""Jobs start, end and are preempted now and then: over minutes, most of their rates would be 0 or no number."""

Query = tuple[str, str]
"""A PromQL expression and its legend, which may name labels as ``{{label}}``."""


def rate(counter: str, selector: str = "", by: str = "", window: str = "$__rate_interval") -> str:
    """Returns the sum of a counter's increase in a second."""
    return f"sum{f' by ({by}) ' if by else ''}(rate({counter}{selector}[{window}]))"


def per_hour(counter: str, selector: str = "", by: str = "") -> str:
    """Returns how often something rare happens in an hour."""
    return f"{rate(counter, selector, by, _EVENT_WINDOW)} * 3600"


def quantiles(
    histogram: str, selector: str = "", window: str = "$__rate_interval", by: str = ""
) -> list[Query]:
    """Returns the median and the 99th percentile of what was observed within a window."""
    labels, legend = (f"le, {by}", f" {{{{{by}}}}}") if by else ("le", "")
    buckets = f"sum by ({labels}) (rate({histogram}_bucket{selector}[{window}]))"
    return [(f"histogram_quantile({q}, {buckets})", f"p{round(100 * q)}{legend}") for q in (0.5, 0.99)]


def event_quantiles(histogram: str, selector: str = "") -> list[Query]:
    """Returns the quantiles of what happens now and then."""
    return quantiles(histogram, selector, _EVENT_WINDOW)


def occurred(rates: str) -> str:
    """Returns the rates that are not 0, so that a legend names only what occurred."""
    return f"{rates} > 0"


def dcgm(metric: str) -> str:
    """Returns a metric of NVIDIA's dcgm-exporter by our label `gpu_uuid`."""
    return f'max by (gpu_uuid) (label_replace({metric}, "gpu_uuid", "$1", "UUID", "(.+)"))'


def lines(
    title: str,
    description: str,
    queries: Iterable[Query],
    *,
    unit: str = "short",
    width: int = 8,
    stacked: bool = False,
    minimum: float | None = 0,
    maximum: float | None = None,
    bars: bool = False,
    empty: str = "",
) -> timeseries.Panel:
    """Returns a panel over time.

    ``unit`` is Grafana's name of one; ``width`` counts Grafana's 24 columns; ``empty`` is shown in place of "No data".
    """
    mode = options.StackingMode.NORMAL if stacked else options.StackingMode.NONE
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(_DATASOURCE)
        .unit(unit)
        .span(width)
        .height(8)
        .fill_opacity(25 if stacked or bars else 8)
        .show_points(options.VisibilityMode.NEVER)
        .draw_style(options.GraphDrawStyle.BARS if bars else options.GraphDrawStyle.LINE)
        .stacking(common.StackingConfig().mode(mode).group("A"))
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(options.LegendDisplayMode.LIST)
            .placement(options.LegendPlacement.BOTTOM)
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(options.TooltipDisplayMode.MULTI)
            .sort(options.SortOrder.DESCENDING)
        )
    )
    if empty:
        panel = panel.no_value(empty)
    if minimum is not None:
        panel = panel.min(minimum)
    if maximum is not None:
        panel = panel.max(maximum)
    for place, (expression, legend) in enumerate(queries):
        target = prometheus.Dataquery().expr(expression).legend_format(legend).range()
        panel = panel.with_target(target.ref_id(_letter(place)).datasource(_DATASOURCE))
    return panel


def number(
    title: str, description: str, expression: str, *, unit: str = "short", width: int = 4
) -> stat.Panel:
    """Returns a panel with the current value of one query."""
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(_DATASOURCE)
        .unit(unit)
        .span(width)
        .height(4)
        .no_value("none")
        .graph_mode(options.BigValueGraphMode.NONE)
        .color_mode(options.BigValueColorMode.NONE)
        .with_target(_instant(expression, "A"))
    )


def states(
    title: str, description: str, query: Query, names: dict[str, tuple[str, str]], *, width: int = 12
) -> statetimeline.Panel:
    """Returns a panel with the states of things over time; ``names``: text and color by value."""
    results = {
        value: models.ValueMappingResult(text=text, color=color) for value, (text, color) in names.items()
    }
    return (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(_DATASOURCE)
        .span(width)
        .height(8)
        .mappings([models.ValueMap(options=results)])
        .with_target(
            prometheus.Dataquery()
            .expr(query[0])
            .legend_format(query[1])
            .range()
            .ref_id("A")
            .datasource(_DATASOURCE)
        )
    )


def rows(
    title: str,
    description: str,
    columns: Sequence[tuple[str, str, str]],
    *,
    width: int = COLUMNS,
    height: int = 10,
    links: Sequence[dashboard.DashboardLink] = (),
) -> table.Panel:
    """Returns a table: one row for each set of labels, one column for each query, given as its title, expression and unit."""
    panel = (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(_DATASOURCE)
        .span(width)
        .height(height)
        .data_links(list(links))
        .with_transformation(models.DataTransformerConfig("merge", options={}))
    )
    names = {f"Value #{_letter(n)}": name for n, (name, _, _) in enumerate(columns)}
    names = names if len(columns) > 1 else {"Value": columns[0][0]}
    tidy: dict[str, Any] = {"excludeByName": {"Time": True, "__name__": True}, "renameByName": names}
    panel = panel.with_transformation(models.DataTransformerConfig("organize", options=tidy))
    for n, (name, expression, unit) in enumerate(columns):
        panel = panel.with_target(_instant(expression, _letter(n)).format(PromQueryFormat.TABLE))
        panel = panel.override_by_name(name, [models.DynamicConfigValue("unit", unit)])
    return panel


def short_uuid(expression: str) -> str:
    """Returns the expression with the start of each GPU's UUID, because four whole ones leave half of a panel to its legend."""
    return f'label_replace({expression}, "gpu_uuid", "$1", "gpu_uuid", "(.{{1,12}}).*")'


def choice(name: str, label: str, query: str, *, several: bool = True) -> dashboard.QueryVariable:
    """Returns a variable whose values are those of a label in the dashboard's range of time."""
    variable = (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_DATASOURCE)
        .query({"query": query, "refId": name})
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        variable = variable.all_value(".*").current(models.VariableOption(text="All", value="$__all"))
    return variable


def a_dashboard(
    name: str, description: str, variables: Iterable[dashboard.QueryVariable]
) -> dashboard.Dashboard:
    """Returns an empty dashboard that links to the others."""
    built = (
        dashboard.Dashboard(f"Laneway / {name}")
        .uid(f"laneway-{name.lower()}")
        .description(description)
        .tags([TAG])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(
            dashboard.DashboardLink("Laneway")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for variable in variables:
        built = built.with_variable(variable)
    return built


def job_link() -> dashboard.DashboardLink:
    """Returns a link from a row with a namespace and a job to the job's dashboard."""
    url = "/d/laneway-job?var-namespace=${__data.fields.namespace}&var-training_job=${__data.fields.training_job}"
    return dashboard.DashboardLink("This job").url(url).keep_time(True)


def _instant(expression: str, letter: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expression).instant().ref_id(letter).datasource(_DATASOURCE)


def _letter(place: int) -> str:
    return chr(ord("A") + place)
