/** The tables of all blocks and of all events: only the rows on the screen are read, and every row can be reached. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { effect, signal, useComputed, type Signal } from '@preact/signals';
import { afterScroll, scrollHeight, scrollTo, type Scrolled } from '../layout/scrolling';
import { Toggle } from '../parts/controls';
import { Tools } from '../parts/tools';
import type { TableColumn } from '../protocol/types';
import { mainLens, session } from '../state/lens';
import { change, store } from '../state/store';
import { Redraw } from '../state/work';
import { formatCell, formatCount } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say } from '../words/say';
import { filterParameter, isUnderstood, readTyped, writeTyped } from './table_filter';
import { TablePages } from './table_pages';

const ROW_HEIGHT = 24;
const WIDTHS: Record<string, number> = { bytes: 96, count: 84, time: 110, hex: 148, row: 100, bool: 92, text: 240 };
const CHOICE_WIDTH = 140;
const NUMBER_KINDS = new Set(['bytes', 'count', 'time', 'row', 'hex']);

type TableName = 'blocks' | 'events';

const FIELDS = {
  blocks: { sort: store.blocksSort, filter: store.blocksFilter, inWindow: store.blocksInWindow },
  events: { sort: store.eventsSort, filter: store.eventsFilter, inWindow: store.eventsInWindow },
};

/** A sort is kept as the column's name, with a minus where it descends. */
function sortOf(text: string): { sort: string; descending: number } | Record<string, never> {
  return text ? { sort: text.replace(/^-/, ''), descending: text.startsWith('-') ? 1 : 0 } : {};
}

export function RowsView({ name }: { name: TableName }): JSX.Element {
  const { sort, filter, inWindow } = FIELDS[name];
  const columns = session.value?.tables[name] ?? [];
  const parameters = useComputed(() => {
    const common = mainLens.common();
    if (!common) return null;
    const range = store.range.value ?? mainLens.window.value;
    return {
      process: common['process'], table: name, ...sortOf(sort.value), search: store.search.value,
      filter: filterParameter(columns, readTyped(filter.value)),
      ...(inWindow.value ? { axis: common['axis'], from: range.from, to: range.to } : {}),
    };
  });
  const pages = useMemo(() => new TablePages(), []);
  const place = useMemo(() => signal<Scrolled>({ row: 0, top: 0 }), []);
  const active = useMemo(() => signal(0), []);
  const viewport = useMemo(() => signal(300), []);
  const body = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const stop = effect(() => {
      pages.follow(parameters.value);
      place.value = { row: 0, top: 0 };
      active.value = 0;
      if (body.current) body.current.scrollTop = 0;
    });
    return () => {
      stop();
      pages.dispose();
    };
  }, []);
  useEffect(() => followSize(body.current, viewport), []);

  const info = pages.info.value;
  const count = info?.matching ?? 0;
  const first = Math.floor(place.value.row);
  const shownCount = Math.min(Math.ceil(viewport.value / ROW_HEIGHT) + 1, Math.max(count - first, 0));
  useEffect(() => { if (shownCount > 0) pages.want(first, first + shownCount - 1); }, [first, shownCount, pages.version.value]);
  const template = columns.map((column) => (isLong(column) ? `minmax(${widthOf(column)}px, 1fr)` : `${widthOf(column)}px`)).join(' ');
  const width = columns.reduce((sum, column) => sum + widthOf(column), 0);
  const problem = pages.problem.value;

  const goTo = (row: number): void => {
    const wanted = Math.min(Math.max(row, 0), count - 1);
    active.value = wanted;
    const room = viewport.value / ROW_HEIGHT - 1;
    let top = place.value.row;
    if (wanted < top) top = wanted;
    else if (wanted > top + room) top = wanted - room;
    else return;
    place.value = scrollTo(top, count, ROW_HEIGHT, viewport.value);
    if (body.current) body.current.scrollTop = place.value.top;
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
    const page = Math.floor(viewport.value / ROW_HEIGHT) - 1;
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const move = moves[event.key];
    if (move !== undefined) goTo(move === Infinity ? count - 1 : move === -Infinity ? 0 : active.value + move);
    else if (event.key === 'Enter') choose(name, pages, active.value);
    else return;
    event.preventDefault();
  };
  const onScroll = (top: number): void => {
    if (Math.abs(top - place.value.top) < 0.5) return;
    place.value = afterScroll(place.value, top, count, ROW_HEIGHT, viewport.value);
    if (body.current && Math.abs(body.current.scrollTop - place.value.top) > 1) body.current.scrollTop = place.value.top;
  };
  return (
    <section class="view" data-view={name} aria-label={say(name === 'blocks' ? 'view_blocks' : 'view_events')}>
      <div class="view-head">
        <span data-count>{info && say('rows_matching', { n: formatCount(count), total: formatCount(info.total) })}</span>
        <Toggle name="in-window" isOn={inWindow.value} onToggle={(isOn) => { inWindow.value = isOn; }}>
          {say(store.range.value ? 'in_range_only' : 'in_window_only')}
        </Toggle>
        {(filter.value || store.search.value) && (
          <button type="button" data-action="clear-filter" onClick={() => { filter.value = ''; store.search.value = ''; }}>{say('clear_filter')}</button>
        )}
        <span class="spring" />
        <Tools name={name} python={info?.python} download={parameters.value && { what: name, parameters: { ...parameters.value, table: null } }} />
      </div>
      {problem && <div class="trouble" role="alert" data-trouble><strong>{problem.isStopped ? say('server_gone') : problem.message}</strong>{problem.hint}</div>}
      <div
        class="rows grow" ref={body} role="grid" tabIndex={0} data-rows aria-rowcount={count + 2} aria-colcount={columns.length}
        aria-label={say(name === 'blocks' ? 'view_blocks' : 'view_events')} aria-activedescendant={`${name}-${active.value}`}
        onKeyDown={onKey} onScroll={(event) => onScroll(event.currentTarget.scrollTop)}
      >
        <div class="rows-sheet" style={{ height: `${scrollHeight(count, ROW_HEIGHT) + 2 * 27}px`, minWidth: `${width}px` }}>
          <Head columns={columns} template={template} sort={sort} filter={filter} />
          <div class="rows-shown" style={{ top: `${54 + place.value.top - (place.value.row - first) * ROW_HEIGHT}px` }}>
            {Array.from({ length: shownCount }, (_, offset) => (
              <Row
                key={first + offset} name={name} pages={pages} columns={columns} template={template} row={first + offset}
                isActive={active.value === first + offset}
                onChoose={(row) => { active.value = row; choose(name, pages, row); }}
              />
            ))}
          </div>
        </div>
      </div>
    </section>
  );
}

function isLong(column: TableColumn): boolean {
  return column.kind === 'text' && column.filter !== 'choice';
}

function widthOf(column: TableColumn): number {
  return column.filter === 'choice' ? CHOICE_WIDTH : (WIDTHS[column.kind] ?? CHOICE_WIDTH);
}

function followSize(element: HTMLElement | null, viewport: Signal<number>): () => void {
  if (!element) return () => undefined;
  const measure = new Redraw(() => { viewport.value = Math.max(element.clientHeight - 54, ROW_HEIGHT); });
  const observer = new ResizeObserver(() => measure.request());
  observer.observe(element);
  return () => {
    observer.disconnect();
    measure.cancel();
  };
}

/** A block opens in the panel; an event becomes the moment that all views look at. */
function choose(name: TableName, pages: TablePages, row: number): void {
  const block = pages.cell(row, 'block');
  if (typeof block === 'number' && block >= 0) store.block.value = block;
  if (name === 'events') {
    const event = pages.cell(row, 'row');
    if (typeof event === 'number') change({ row: event });
  }
}

interface HeadProps {
  columns: TableColumn[];
  template: string;
  sort: Signal<string>;
  filter: Signal<string>;
}

function Head({ columns, template, sort, filter }: HeadProps): JSX.Element {
  const typed = readTyped(filter.value);
  const set = (column: string, value: string): void => { filter.value = writeTyped({ ...typed, [column]: value }); };
  return (
    <div class="rows-head" role="rowgroup">
      <div class="grid-row" role="row" style={{ gridTemplateColumns: template }}>
        {columns.map(({ column, label, kind }) => {
          const isSorted = sort.value.replace(/^-/, '') === column;
          const isDescending = isSorted && sort.value.startsWith('-');
          return (
            <div
              key={column} role="columnheader" class={NUMBER_KINDS.has(kind) ? 'number' : ''}
              aria-sort={isSorted ? (isDescending ? 'descending' : 'ascending') : 'none'}
            >
              <button
                type="button" class="plain" data-sort={column}
                onClick={() => { sort.value = isSorted && isDescending ? column : isSorted ? '' : `-${column}`; }}
              >
                {label}{isSorted ? (isDescending ? ' ↓' : ' ↑') : ''}
              </button>
            </div>
          );
        })}
      </div>
      <div class="grid-row filters" role="row" style={{ gridTemplateColumns: template }}>
        {columns.map((column) => (
          <div key={column.column} role="gridcell"><FilterField column={column} typed={typed[column.column] ?? ''} onType={(value) => set(column.column, value)} /></div>
        ))}
      </div>
    </div>
  );
}

function FilterField({ column, typed, onType }: { column: TableColumn; typed: string; onType: (value: string) => void }): JSX.Element | null {
  if (!column.filter) return null;
  const label = say('filter_of', { name: column.label });
  if (column.filter === 'choice') {
    return (
      <select data-filter={column.column} aria-label={label} value={typed} onChange={(event) => onType(event.currentTarget.value)}>
        <option value="">{say('any')}</option>
        {(column.choices ?? []).map((value) => <option key={value} value={value}>{value}</option>)}
      </select>
    );
  }
  return (
    <input
      type="text" data-filter={column.column} aria-label={label} value={typed} spellcheck={false}
      placeholder={column.filter === 'range' ? '≥ …' : '…'} title={column.filter === 'range' ? say('filter_hint') : ''}
      aria-invalid={!isUnderstood(column, typed)} onChange={(event) => onType(event.currentTarget.value)}
    />
  );
}

interface RowProps {
  name: TableName;
  pages: TablePages;
  columns: TableColumn[];
  template: string;
  row: number;
  isActive: boolean;
  onChoose: (row: number) => void;
}

function Row({ name, pages, columns, template, row, isActive, onChoose }: RowProps): JSX.Element {
  return (
    <div
      id={`${name}-${row}`} role="row" aria-rowindex={row + 3} aria-selected={isActive} data-row={row}
      class={isActive ? 'grid-row active' : 'grid-row'} style={{ gridTemplateColumns: template }} onClick={() => onChoose(row)}
    >
      {columns.map(({ column, kind }) => {
        const value = pages.cell(row, column);
        const text = value === undefined ? '…' : formatCell(value, kind);
        return (
          <div key={column} role="gridcell" class={NUMBER_KINDS.has(kind) ? 'number' : ''} title={kind === 'text' ? text : ''}>
            {kind === 'text' ? shortSite(text) : text}
          </div>
        );
      })}
    </div>
  );
}
