// Draws one dashboard. The page's address names its file, Prometheus and the time; see `__main__.py`.
import { createTheme, ThemeContext } from '@grafana/data';
import { GlobalStyles, Icon, InlineLabel, PanelChrome, Text } from '@grafana/ui';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';

import { chosen, frames, type Variables } from './data';
import { Content, withDefaults } from './panels';

const GAP = 8;
const MARGIN = 16;
const ROW = 30;
const COLUMN = (innerWidth - 2 * MARGIN + GAP) / 24;
const theme = createTheme({ colors: { mode: 'light' } });

function box({ x, y, w, h }: Record<'x' | 'y' | 'w' | 'h', number>) {
  return { left: x * COLUMN, top: y * (ROW + GAP), width: w * COLUMN - GAP, height: h * (ROW + GAP) - GAP };
}

/** One panel or the title of a row, in its place. */
async function placed(panel: any, variables: Variables) {
  const { width, height, ...place } = box(panel.gridPos);
  const style = { position: 'absolute', width, height, ...place } as const;
  if (panel.type === 'row') {
    return <div key={panel.title} className="row" style={style}><Icon name="angle-down" /><Text variant="h6">{panel.title}</Text></div>;
  }
  const fieldConfig = withDefaults(panel);
  const data = panel.type === 'state-timeline' ? [] : await frames(panel, variables, Math.floor(width), fieldConfig, theme);
  const drawn = { panel, frames: data, fieldConfig, variables, theme };
  return (
    <div key={panel.title} style={style}>
      <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
        {(innerWidth, innerHeight) => <Content {...drawn} width={innerWidth} height={innerHeight} />}
      </PanelChrome>
    </div>
  );
}

function Heading({ dashboard, variables }: { dashboard: any; variables: Variables }) {
  return (
    <div className="heading">
      <Text variant="h4">{dashboard.title}</Text>
      {dashboard.templating.list.filter((each: any) => each.name in variables).map((each: any) => (
        <span key={each.name} className="choice">
          <InlineLabel width="auto">{each.label}</InlineLabel>
          <Text>{each.allValue ? 'All' : variables[each.name]}</Text>
        </span>
      ))}
    </div>
  );
}

async function draw() {
  const root = createRoot(document.getElementById('root')!);
  const styles = <GlobalStyles hackNoBackdropBlur isExtensionSidebarOpen={false} />;
  flushSync(() => root.render(<ThemeContext.Provider value={theme}>{styles}</ThemeContext.Provider>));
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 12px Inter`)));
  const file = new URLSearchParams(location.search).get('dashboard');
  const dashboard = await (await fetch(`${file}.json`)).json();
  const variables = await chosen(dashboard);
  const panels = await Promise.all(dashboard.panels.map((each: any) => placed(each, variables)));
  const height = Math.max(...dashboard.panels.map(({ gridPos }: any) => (gridPos.y + gridPos.h) * (ROW + GAP)));
  root.render(
    <ThemeContext.Provider value={theme}>
      {styles}
      <Heading dashboard={dashboard} variables={variables} />
      <div className="grid" style={{ height }}>{panels}</div>
    </ThemeContext.Provider>
  );
  document.body.dataset.drawn = 'true';
}

draw();
