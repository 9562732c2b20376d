// Draws a panel with the component that Grafana's own panel of that type uses.
import {
  type DataFrame, FieldColorModeId, type FieldConfigSource, getFieldDisplayValues, type GrafanaTheme2, ThresholdsMode,
} from '@grafana/data';
import { BigValue, Text, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

import { fill, timeRange, type Variables } from './data';

type Size = { width: number; height: number };
type Drawn = Size & { panel: any; frames: DataFrame[]; fieldConfig: FieldConfigSource; variables: Variables; theme: GrafanaTheme2 };

const DRAWN: Record<string, (props: Drawn) => React.JSX.Element> = { timeseries: Lines, stat: Stat, table: Table };

/** The field configuration of a dashboard's JSON, with the defaults of Grafana's panels. */
export function withDefaults(panel: any): FieldConfigSource {
  const { defaults, overrides } = panel.fieldConfig ?? { defaults: {}, overrides: [] };
  const mode = panel.type === 'timeseries' ? FieldColorModeId.PaletteClassic : FieldColorModeId.Thresholds;
  const steps = [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }];
  return {
    defaults: {
      color: { mode }, thresholds: { mode: ThresholdsMode.Absolute, steps }, ...defaults,
      custom: { lineWidth: 1, ...defaults.custom },
    },
    overrides,
  };
}

export function Content(props: Drawn) {
  const Panel = DRAWN[props.panel.type];
  if (!Panel) {
    return <Message text={`Grafana's component library has no ${props.panel.type}.`} />;
  }
  const empty = props.panel.type !== 'stat' && !props.frames.some((frame) => frame.length);
  return empty ? <Message text={props.fieldConfig.defaults.noValue ?? 'No data'} /> : <Panel {...props} />;
}

function Message({ text }: { text: string }) {
  return <div className="message"><Text color="secondary">{text}</Text></div>;
}

function Lines({ panel, frames, width, height }: Drawn) {
  const { legend } = panel.options;
  return <TimeSeries frames={frames} timeRange={timeRange} timeZone="browser" legend={legend} width={width} height={height} />;
}

function Stat({ panel, frames, fieldConfig, variables, theme, width, height }: Drawn) {
  const { reduceOptions, colorMode, graphMode, justifyMode, textMode, wideLayout } = panel.options;
  const replaceVariables = (text: string) => fill(text, variables);
  const [value] = getFieldDisplayValues({ data: frames, reduceOptions, fieldConfig, replaceVariables, theme });
  const options = { colorMode, graphMode, justifyMode, textMode, wideLayout };
  return <BigValue value={value.display} {...options} count={1} theme={theme} width={width} height={height} />;
}

function Table({ frames, fieldConfig, width, height }: Drawn) {
  return <TableNG data={frames[0]} fieldConfig={fieldConfig} width={width} height={height} />;
}
