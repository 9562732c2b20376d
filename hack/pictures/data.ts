// Asks Prometheus for a panel's queries and makes Grafana's data frames of the answers.
import {
  applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, type DataFrame, dateTime, type FieldConfigSource, FieldType, type GrafanaTheme2,
  renderLegendFormat, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, type TimeRange,
  transformDataFrame,
} from '@grafana/data';
import { lastValueFrom } from 'rxjs';

const parameters = new URLSearchParams(location.search);
const SCRAPE_SECONDS = Number(parameters.get('scrape'));
const TO = Number(parameters.get('to'));
const FROM = TO - 60 * Number(parameters.get('minutes'));
export const timeRange: TimeRange = {
  from: dateTime(FROM * 1000), to: dateTime(TO * 1000), raw: { from: dateTime(FROM * 1000), to: dateTime(TO * 1000) },
};

export type Variables = Record<string, string>;

const STANDARD = ['unit', 'min', 'max', 'decimals', 'noValue', 'color', 'mappings', 'thresholds', 'links'];
const CUSTOM = ['drawStyle', 'lineWidth', 'fillOpacity', 'showPoints', 'stacking', 'barAlignment', 'align', 'cellOptions'];
const option = (path: string, isCustom: boolean): any => ({
  id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, process: (value: unknown) => value, shouldApply: () => true,
});
standardFieldConfigEditorRegistry.setInit(() => [...STANDARD.map((path) => option(path, false)), ...CUSTOM.map((path) => option(path, true))]);
standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map(
    (each): any => ({ id: each.id, name: each.name, transformation: () => Promise.resolve(each) })
  )
);

async function ask(path: string, query: Record<string, string | number>): Promise<any> {
  const answer = await fetch(`${parameters.get('prometheus')}/api/v1/${path}?${new URLSearchParams(query as any)}`);
  const body = await answer.json();
  if (body.status !== 'success') {
    throw new Error(`${path} ${JSON.stringify(query)}: ${body.error}`);
  }
  return body.data;
}

/** Fills in `$name` and `${name}`. */
export function fill(text: string, variables: Variables): string {
  return text.replace(/\$\{?(\w+)\}?/g, (whole, name) => variables[name] ?? whole);
}

/** A variable with a choice of all has all; another has the value of the page's address, or its first one. */
export async function chosen(dashboard: any): Promise<Variables> {
  const values: Variables = {};
  for (const variable of dashboard.templating.list.filter((each: any) => each.type === 'query')) {
    const [, series, label] = /label_values\((.*), (\w+)\)/.exec(fill(variable.query.query, values))!;
    const found = await ask(`label/${label}/values`, { 'match[]': series, start: FROM, end: TO });
    values[variable.name] = variable.allValue ?? parameters.get(variable.name) ?? found[0];
  }
  return values;
}

/** What a panel shows, with its colors, units and names. */
export async function frames(panel: any, variables: Variables, width: number, fieldConfig: FieldConfigSource, theme: GrafanaTheme2) {
  const asked = await Promise.all(panel.targets.map((each: any) => answers(each, panel.targets.length, variables, width)));
  const data = await lastValueFrom(transformDataFrame(panel.transformations ?? [], asked.flat()));
  const replaceVariables = (text: string) => fill(text, variables);
  const configured = applyFieldOverrides({ data, fieldConfig, replaceVariables, theme, timeZone: 'browser' });
  cacheFieldDisplayNames(configured);
  return configured;
}

async function answers(target: any, count: number, variables: Variables, width: number): Promise<DataFrame[]> {
  const step = Math.max(SCRAPE_SECONDS, Math.ceil((TO - FROM) / width));
  const rate = `${Math.max(step + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS)}s`;
  const query = fill(target.expr, { ...variables, __rate_interval: rate, __range: `${TO - FROM}s`, __range_s: `${TO - FROM}` });
  const answer = target.instant
    ? await ask('query', { query, time: TO })
    : await ask('query_range', { query, start: FROM, end: TO, step });
  return target.format === 'table' ? table(answer.result, target.refId, count) : answer.result.map((each: any) => series(each, target, step));
}

/** One time series with a gap where Prometheus has no number. */
function series(found: any, target: any, step: number): DataFrame {
  const values = new Map<number, string>((found.values ?? [found.value]).map(([time, value]: [number, string]) => [Math.round(time), value]));
  const times = found.value ? [TO] : Array.from({ length: Math.floor((TO - FROM) / step) + 1 }, (_, place) => FROM + place * step);
  const name = target.legendFormat ? renderLegendFormat(target.legendFormat, found.metric) : undefined;
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: times.map((time) => time * 1000) },
      {
        name: 'Value', type: FieldType.number, labels: found.metric, config: { displayNameFromDS: name },
        values: times.map((time) => (Number.isNaN(Number(values.get(time))) ? null : Number(values.get(time)))),
      },
    ],
  });
}

/** One row for each time series. */
function table(result: any[], refId: string, count: number): DataFrame[] {
  const labels = [...new Set(result.flatMap((each) => Object.keys(each.metric)))].sort();
  const strings = labels.map((name) => ({ name, type: FieldType.string, values: result.map((each) => each.metric[name]) }));
  const time = { name: 'Time', type: FieldType.time, values: result.map((each) => each.value[0] * 1000) };
  const value = { name: count > 1 ? `Value #${refId}` : 'Value', type: FieldType.number, values: result.map((each) => Number(each.value[1])) };
  return result.length ? [createDataFrame({ refId, fields: [time, ...strings, value] })] : [];
}
