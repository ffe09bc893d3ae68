/** The page: verdicts, memory over time, and one of the views below it. */
import type { JSX } from 'preact';
import { MemoryView } from '../memory/memory_view';
import { MomentBar } from '../memory/moment_bar';
import { TipBox } from '../parts/status';
import { isServerGone } from '../protocol/ask';
import { VIEWS, type ViewName } from '../state/fields';
import { notice } from '../state/hover';
import { mainLens, otherLens, session } from '../state/lens';
import { store } from '../state/store';
import { say } from '../words/say';
import { CallsView } from './calls_view';
import { ComparisonView, OtherChooser } from './comparison_view';
import { DetailPanel } from './detail_panel';
import { DifferenceView } from './difference_view';
import { FindingsView } from './findings_view';
import { FlameView } from './flame_view';
import { Header } from './header';
import { Help } from './help';
import { MapView } from './map_view';
import { OwnersView } from './owners_view';
import { PoolView } from './pool_view';
import { RowsView } from './rows_view';
import { Verdicts } from './verdicts';

const PAGES: Record<ViewName, () => JSX.Element> = {
  map: MapView,
  flame: FlameView,
  owners: OwnersView,
  pool: PoolView,
  calls: CallsView,
  difference: DifferenceView,
  comparison: ComparisonView,
  blocks: () => <RowsView name="blocks" key="blocks" />,
  events: () => <RowsView name="events" key="events" />,
  findings: FindingsView,
};

export function App(): JSX.Element {
  const isReady = session.value !== null && session.value.processes.length > 0;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>{say('skip')}</a>
      <Header />
      {isServerGone.value && (
        <div class="gone" role="alert" data-gone>
          <strong>{say('server_gone')}</strong> {say('server_gone_hint')}
          <button type="button" onClick={() => location.reload()}>{say('again')}</button>
        </div>
      )}
      {session.value && !isReady && <p class="trouble">{say('nothing_recorded')}</p>}
      {isReady && (
        <div class="body">
          <main id="main" tabIndex={-1}>
            <Verdicts />
            <Problems />
            {store.view.value === 'comparison' ? <BothCurves /> : <MemoryView lens={mainLens} name="memory" key="memory" />}
            <MomentBar />
            <Tabs />
            <Page />
          </main>
          <DetailPanel />
        </div>
      )}
      <TipBox />
      <Help />
      <div class={notice.value ? 'notice on' : 'notice'} role="status">{notice.value}</div>
    </>
  );
}

/** The address is the state of the page, so a link within it is followed by hand. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function BothCurves(): JSX.Element {
  return (
    <div class="both">
      <div class="one">
        <div class="other-head"><b>A</b> {mainLens.process.value?.name}</div>
        <MemoryView lens={mainLens} name="memory" key="memory-a" />
      </div>
      <div class="one">
        <div class="other-head"><b>B</b> <OtherChooser /></div>
        <MemoryView lens={otherLens} name="memory-other" key="memory-b" />
      </div>
    </div>
  );
}

function Problems(): JSX.Element | null {
  const { problems = [], notes = [] } = mainLens.process.value ?? {};
  if (problems.length + notes.length === 0) return null;
  return (
    <details class="problems" open={problems.length > 0 && problems.length < 3}>
      <summary>{say('problems', { n: problems.length, m: notes.length })}</summary>
      <ul>{[...problems, ...notes].map((text, number) => <li key={number}>{text}</li>)}</ul>
    </details>
  );
}

function Tabs(): JSX.Element {
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = VIEWS[(VIEWS.indexOf(store.view.value) + step + VIEWS.length) % VIEWS.length]!;
    store.view.value = next;
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-tab="${next}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={say('views')} onKeyDown={onKey}>
      {VIEWS.map((view) => (
        <button
          type="button" role="tab" key={view} id={`tab-${view}`} data-tab={view} aria-selected={store.view.value === view} aria-controls="page"
          tabIndex={store.view.value === view ? 0 : -1} onClick={() => { store.view.value = view; }}
        >
          {say(`view_${view}`)}
        </button>
      ))}
    </div>
  );
}

function Page(): JSX.Element {
  const Shown = PAGES[store.view.value];
  return <div class="page" id="page" role="tabpanel" aria-labelledby={`tab-${store.view.value}`}><Shown /></div>;
}
