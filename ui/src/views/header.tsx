/** The bar at the top: what is looked at, how it is divided, and how the page looks. */
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { Choice, Switch } from '../parts/controls';
import { askJson } from '../protocol/ask';
import type { Moment } from '../protocol/types';
import type { Range } from '../state/fields';
import { isHelpOpen } from '../state/hover';
import { chooseProcess, choosePool, mainLens, session } from '../state/lens';
import { language, themeChoice, type Language, type ThemeChoice } from '../state/preferences';
import { change, store } from '../state/store';
import { beginWork } from '../state/work';
import { formatBytes, type AxisName } from '../text/numbers';
import { say, sayNamed } from '../words/say';

export function Header(): JSX.Element {
  const processes = session.value?.processes ?? [];
  const process = mainLens.process.value;
  const pools = process?.pools ?? [];
  const groupings = ['none', ...(process?.groupings ?? [])];
  return (
    <header class="header">
      <h1>msmemscope</h1>
      <Choice
        name="process" label={say('process')} value={process?.process ?? 0}
        options={processes.map((one) => ({ value: one.process, text: one.name }))} onChoose={chooseProcess}
      />
      <Choice
        name="pool" label={say('pool')} value={mainLens.pool.value?.pool ?? 0}
        options={pools.map((one) => ({ value: one.pool, text: `${one.name} · ${formatBytes(one.peak_bytes)}` }))} onChoose={choosePool}
      />
      <Choice
        name="by" label={say('group_by')} value={groupings.includes(store.by.value) ? store.by.value : 'none'}
        options={groupings.map((value) => ({ value, text: sayNamed('by', value) }))} onChoose={(by) => change({ by })}
      />
      <Switch<AxisName>
        name="axis" label={say('axis')} value={mainLens.axis.value}
        options={(process?.axis.has_times === false ? ['events'] as const : ['time', 'events'] as const).map((value) => ({ value, text: say(`axis_${value}`) }))}
        onChoose={(axis) => void chooseAxis(axis)}
      />
      <Search />
      <span class="spring" />
      <Choice<ThemeChoice>
        name="theme" label={say('theme')} value={themeChoice.value}
        options={(['auto', 'light', 'dark'] as const).map((value) => ({ value, text: say(`theme_${value}`) }))}
        onChoose={(value) => { themeChoice.value = value; }}
      />
      <Switch<Language>
        name="language" label={say('language')} value={language.value}
        options={[{ value: 'en', text: 'EN' }, { value: 'zh', text: '中' }]} onChoose={(value) => { language.value = value; }}
      />
      <button type="button" data-action="help" aria-label={say('help')} title={`${say('help')} (?)`} onClick={() => { isHelpOpen.value = true; }}>?</button>
    </header>
  );
}

function Search(): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  return (
    <form
      class="search" role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const text = field.current?.value.trim() ?? '';
        // Those views show by themselves what matches; from all others the blocks that match are the answer.
        const isShownHere = ['flame', 'blocks', 'events'].includes(store.view.value);
        change({ search: text, ...(isShownHere || text === '' ? {} : { view: 'blocks' as const }) });
      }}
    >
      <input
        ref={field} type="search" data-control="search" value={store.search.value} spellcheck={false} placeholder={say('search_hint')}
        aria-label={say('search')} title={say('search_hint')}
        onInput={(event) => { if (event.currentTarget.value === '') store.search.value = ''; }}
      />
    </form>
  );
}

/** The same window on the other axis: the events at its ends, or when they were. */
async function chooseAxis(axis: AxisName): Promise<void> {
  const window = store.window.value;
  const common = mainLens.common();
  const former = mainLens.axis.value;
  if (axis === former) return;
  if (!window || !common) {
    change({ axis, window: null, range: null, otherWindow: null });
    return;
  }
  const end = beginWork();
  const at = async (position: number): Promise<number> => {
    const place = former === 'time' ? { axis: former, position } : { axis, row: position };
    const moment = await askJson<Moment>({ path: 'at', parameters: { ...common, ...place } });
    return former === 'time' ? moment.row : moment.position;
  };
  try {
    const [from, to] = await Promise.all([at(window.from), at(window.to)]);
    const range: Range = { from: Math.max(from, 0), to: Math.max(to, from + 2) };
    change({ axis, window: range, range: null, otherWindow: null });
  } catch {
    change({ axis, window: null, range: null, otherWindow: null });
  } finally {
    end();
  }
}
