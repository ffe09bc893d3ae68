/** Memory over time: the curve, the strip of the whole run, and the groups. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { computed, effect, signal, useComputed } from '@preact/signals';
import { jsonAnswer, useAnswer } from '../protocol/answer';
import type { Marks, MemoryInfo } from '../protocol/types';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { colouredAnswer } from '../state/coloured';
import { pointed } from '../state/hover';
import { panWindow, showAll, showWindow, zoomMiddle, zoomWindow, type Lens } from '../state/lens';
import { theme } from '../state/preferences';
import { store } from '../state/store';
import { Redraw } from '../state/work';
import { formatBytes, formatPosition } from '../text/numbers';
import { say } from '../words/say';
import { annotationsOf, drawMarks, drawMoments } from './annotations';
import { columnAt, memoryColumns, type MemoryColumns } from './columns';
import { Curve, GUTTER } from './curve';
import { memoryDrawing } from './drawing';
import { Legend } from './legend';
import { nearestAnnotation } from './nearest_annotation';
import { Overview } from './overview';
import { pinsOf } from './pins';

const PAN_SHARE = 0.2;
const ZOOM_FACTOR = 0.7;
const HEIGHT = 216;

/** What a key does to the window; the same in every picture over time. */
export function windowKey(lens: Lens, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === 'ArrowLeft') panWindow(lens, -PAN_SHARE);
  else if (event.key === 'ArrowRight') panWindow(lens, PAN_SHARE);
  else if (event.key === '+' || event.key === '=') zoomMiddle(lens, ZOOM_FACTOR);
  else if (event.key === '-') zoomMiddle(lens, 1 / ZOOM_FACTOR);
  else if (event.key === 'Home') showAll(lens);
  else return false;
  return true;
}

export function MemoryView({ lens, name }: { lens: Lens; name: string }): JSX.Element {
  const width = useMemo(() => signal(0), []);
  const columnCount = useComputed(() => Math.min(Math.max(width.value - GUTTER, 1), 4000));
  const parameters = useComputed(() => {
    const common = lens.commonWindow();
    const by = lens.process.value?.groupings.includes(store.by.value) ? store.by.value : 'none';
    return common && width.value > 0 ? { ...common, columns: columnCount.value, by } : null;
  });
  const answer = useAnswer(() => colouredAnswer<MemoryInfo>(
    () => parameters.value && { path: 'memory', parameters: parameters.value }, (asked) => String(asked.parameters['by']),
  ));
  const marks = useAnswer(() => jsonAnswer<Marks>(() => {
    const common = lens.commonWindow();
    return common && { path: 'marks', parameters: common };
  }));
  const columns = useComputed(() => (answer.value.value ? memoryColumns(answer.value.value) : null));
  const annotations = useComputed(() => (marks.value.value ? annotationsOf(marks.value.value) : []));
  const here = useComputed(() => (pointed.value?.lens === lens ? pointed.value.position : null));
  const shown = useComputed(() => here.value ?? lens.moment.value.value?.position ?? null);
  const host = useRef<HTMLDivElement>(null);
  const curve = useRef<Curve | null>(null);

  useEffect(() => {
    if (!host.current) return undefined;
    const made = connect(host.current, lens, { width, columns, marks, here });
    curve.current = made.curve;
    return made.dispose;
  }, []);

  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && columns.value && here.value !== null) chooseAt(lens, columns.value, here.value);
    else if (!windowKey(lens, event)) return;
    event.preventDefault();
  };
  const data = columns.value;
  const column = data && shown.value !== null ? columnAt(data, shown.value) : 0;
  return (
    <section class="memory" data-view={name} aria-label={say('memory_over_time')}>
      <div class="timed">
        <div class="over-time">
          <div
            class="curve" ref={host} tabIndex={0} role="application" data-curve onKeyDown={onKey}
            aria-label={`${say('memory_over_time')}. ${say('memory_keys')}`}
          />
          <Overview lens={lens} />
        </div>
        <div class="beside">
          <div class="beside-head">
            <Waiting answer={answer} />
            <Tools
              name="memory" python={data?.python} picture={() => curve.current?.canvas ?? null}
              drawing={() => (data ? memoryDrawing(data, lens.axis.value) : null)}
              download={parameters.value && { what: 'memory', parameters: parameters.value }}
            />
          </div>
          {data && <Legend columns={data} column={column} />}
        </div>
      </div>
      <Trouble answer={answer} />
      <p class="readout" data-readout>
        {data && shown.value !== null && readout(lens, data, column, shown.value, here.value !== null)}
        {here.value !== null && <span class="annotation">{annotationText(lens, annotations.value, here.value)}</span>}
        <MarksLeftOut marks={marks.value.value} />
      </p>
    </section>
  );

  function annotationText(of: Lens, among: ReturnType<typeof annotationsOf>, position: number): string {
    const { from, to } = of.window.value;
    return nearestAnnotation(among, position, (5 * (to - from)) / Math.max(columnCount.value, 1))?.text ?? '';
  }
}

function readout(lens: Lens, data: MemoryColumns, column: number, position: number, isPointed: boolean): string {
  const step = (data.to - data.from) / Math.max(data.count, 1);
  const fullest = data.positions[column] ?? position;
  const parts = [
    say(isPointed ? 'at_pointer' : 'at_moment', { place: formatPosition(fullest, lens.axis.value, step) }),
    say('bytes_in_use', { bytes: formatBytes(data.most[column] ?? 0) }),
  ];
  const number = data.steps[column] ?? -1;
  if (number >= 0) parts.push(say('in_step', { n: number }));
  if (data.peak) {
    parts.push(say(lens.isWhole ? 'peak_here' : 'peak_of_window', {
      bytes: formatBytes(data.peak.bytes), place: formatPosition(data.peak.position, lens.axis.value, step),
    }));
  }
  return parts.join(' · ');
}

function MarksLeftOut({ marks }: { marks: Marks | null }): JSX.Element | null {
  if (!marks) return null;
  const more = marks.steps.more + marks.marks.more + marks.ranges.more + marks.snapshots.more + marks.failures.more;
  return more > 0 ? <span class="quiet"> · {say('marks_more', { n: more })}</span> : null;
}

/** A click means the fullest moment of the column: a peak narrower than a pixel can be chosen so. */
function chooseAt(lens: Lens, columns: MemoryColumns, position: number): void {
  lens.chosenRow.value = columns.rows[columnAt(columns, position)] ?? null;
}

interface Connected {
  width: { value: number };
  columns: { value: MemoryColumns | null };
  marks: { value: { value: Marks | null } };
  here: { value: number | null };
}

function connect(host: HTMLElement, lens: Lens, { width, columns, marks, here }: Connected): { curve: Curve; dispose: () => void } {
  const curve = new Curve(host, {
    onSelect: (range, isShifted) => {
      if (isShifted) store.range.value = range;
      else showWindow(lens, range);
    },
    onClick: (position) => { if (columns.value) chooseAt(lens, columns.value, position); },
    onPoint: (position) => { pointed.value = position === null ? null : { lens, position }; },
    onZoom: (position, factor) => zoomWindow(lens, position, factor),
    onPan: (share) => panWindow(lens, share),
    onReset: () => showAll(lens),
    drawAbove: (place) => {
      if (marks.value.value) drawMarks(marks.value.value, place);
      drawMoments({
        moment: lens.moment.value.peek()?.position ?? null,
        range: lens.processNumber === store.process ? store.range.peek() : null,
        pins: pinsOf(lens),
        pointed: here.value,
      }, place);
    },
  });
  const show = new Redraw(() => {
    if (columns.value && width.value > 0) {
      curve.show(columns.value, lens.window.value, { theme: theme.value, axis: lens.axis.value }, width.value, HEIGHT);
    }
  });
  const redraw = new Redraw(() => curve.redraw());
  const move = new Redraw(() => curve.move(lens.window.value));
  const observer = new ResizeObserver(() => { width.value = Math.floor(host.clientWidth); });
  observer.observe(host);
  width.value = Math.floor(host.clientWidth);
  const above = computed(() => [marks.value.value, lens.moment.value.value, store.range.value, here.value, pinsOf(lens)]);
  const stops = [
    effect(() => { void [columns.value, width.value, theme.value]; show.request(); }),
    effect(() => { void lens.window.value; move.request(); }),
    effect(() => { void above.value; redraw.request(); }),
  ];
  return {
    curve,
    dispose: () => {
      for (const stop of stops) stop();
      for (const one of [show, redraw, move]) one.cancel();
      observer.disconnect();
      curve.dispose();
    },
  };
}
