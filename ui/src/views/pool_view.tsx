/** The pool at the moment: its segments as rows of blocks and gaps, and what holds each of them. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { signal, useComputed } from '@preact/signals';
import { Field } from '../canvas/field';
import { followed, useField } from '../canvas/followed_field';
import type { Box } from '../canvas/rectangles';
import { visibleRows } from '../canvas/visible_rows';
import { SourceButton } from '../parts/source';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { frameAnswer, useAnswer } from '../protocol/answer';
import type { Segment, SegmentsInfo } from '../protocol/types';
import type { Range } from '../state/fields';
import { tip } from '../state/hover';
import { mainLens, within } from '../state/lens';
import { theme } from '../state/preferences';
import { change } from '../state/store';
import { formatBytes, formatCount, formatDuration, formatPercent } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say, sayNamed } from '../words/say';
import { KINDS, POOL_COLOURS, poolData, type PoolData } from './pool_data';

const ROW_HEIGHT = 26;

export function PoolView(): JSX.Element {
  const parameters = useComputed(() => {
    const common = mainLens.common();
    return common && mainLens.pool.value?.has_segments !== false ? { ...common, row: mainLens.row.value } : null;
  });
  const answer = useAnswer(() => frameAnswer<SegmentsInfo>(() => parameters.value && { path: 'segments', parameters: parameters.value }));
  const data = useComputed(() => (answer.value.value ? poolData(answer.value.value, theme.value.line) : null));
  const span = useMemo(() => signal<Range | null>(null), []);
  const rows = useMemo(() => signal({ first: 0, last: 60 }), []);
  const { host, field } = useField((element) => {
    const box = (): Box => {
      const { from, to } = span.value ?? { from: 0, to: data.value?.longest ?? 1 };
      return { from, to, ...visibleRows(element, ROW_HEIGHT) };
    };
    const made = new Field(element, true, {
      box,
      ground: () => theme.value.ground,
      onResize: () => { rows.value = rowsShown(element); },
      onHover: (point) => { tip.value = point && data.value && point.hit >= 0 ? { x: pageX(element, point.left), y: pageY(element, point.top), ...wordsOf(data.value, point.hit) } : null; },
      onClick: (point) => {
        const block = data.value?.blocks[point.hit] ?? -1;
        if (block >= 0) change({ block });
      },
      onPan: (right) => {
        const { from, to } = box();
        show(from - right * (to - from), to - right * (to - from));
      },
      onKey: (event) => {
        const { from, to } = box();
        const move = (to - from) * 0.2;
        if (event.key === 'ArrowLeft') show(from - move, to - move);
        else if (event.key === 'ArrowRight') show(from + move, to + move);
        else if (event.key === '+' || event.key === '=') show(from + move, to - move);
        else if (event.key === '-') show(from - move, to + move);
        else if (event.key === 'Home') span.value = null;
        else return false;
        return true;
      },
    });
    const show = (from: number, to: number): void => { span.value = within({ from, to }, data.value?.longest ?? 1); };
    // The wheel scrolls the rows, as they may be many; with a key held it zooms.
    const onWheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.altKey) return;
      event.preventDefault();
      const { from, to } = box();
      const factor = 1.0015 ** event.deltaY;
      const place = from + ((event.clientX - element.getBoundingClientRect().left) / element.clientWidth) * (to - from);
      show(place - (place - from) * factor, place + (to - place) * factor);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return followed(made, () => { if (data.value) made.load(data.value, box()); }, () => { void span.value; });
  });

  const info = data.value?.info;
  const isUnknown = mainLens.pool.value?.has_segments === false;
  return (
    <section class="view" data-view="pool" aria-label={say('view_pool')}>
      <div class="view-head">
        {info && <span data-totals>{totalsText(info)}</span>}
        <span class="swatches">
          <i class="swatch" style={{ background: POOL_COLOURS.in_use }} />{say('kind_in_use')}
          <i class="swatch" style={{ background: theme.value.line }} />{say('kind_gap')}
          <i class="swatch" style={{ background: POOL_COLOURS.waits }} />{say('kind_waits')}
          <i class="swatch" style={{ background: POOL_COLOURS.pin }} />{say('kind_pin')}
        </span>
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools
          name="pool" python={info?.python} picture={() => field.current?.picture() ?? null}
          download={parameters.value && { what: 'segments', parameters: parameters.value }}
        />
      </div>
      <Trouble answer={answer} />
      {isUnknown && <p class="quiet" data-unknown>{say('no_segments')}</p>}
      {info?.notes.map((note) => <p class="quiet" key={note}>{note}</p>)}
      <div class="scrolled grow" hidden={isUnknown} onScroll={() => { field.current?.request(); rows.value = rowsShown(host.current); }}>
        <div class="sheet segments" style={{ height: `${Math.max((info?.segments.length ?? 1) * ROW_HEIGHT, 40)}px` }}>
          <div class="segment-names">
            {info?.segments.slice(rows.value.first, rows.value.last).map((segment, place) => (
              <SegmentName key={segment.address} segment={segment} number={rows.value.first + place} />
            ))}
          </div>
          <div class="field" ref={host} tabIndex={0} role="application" data-field="pool" aria-label={`${say('view_pool')}. ${say('pool_keys')}`} />
        </div>
      </div>
    </section>
  );
}

/** Names are made for the rows on the screen only; a pool may have thousands of segments. */
function rowsShown(host: HTMLElement | null): { first: number; last: number } {
  if (!host) return { first: 0, last: 0 };
  const { low, high } = visibleRows(host, ROW_HEIGHT);
  return { first: Math.max(Math.floor(low) - 10, 0), last: Math.ceil(high) + 10 };
}

function pageX(element: HTMLElement, left: number): number {
  return element.getBoundingClientRect().left + left;
}

function pageY(element: HTMLElement, top: number): number {
  return element.getBoundingClientRect().top + top;
}

function totalsText({ segments }: SegmentsInfo): string {
  const sum = (value: (segment: Segment) => number): number => segments.reduce((total, segment) => total + value(segment), 0);
  const size = sum((segment) => segment.size);
  return say('pool_totals', {
    n: formatCount(segments.length), size: formatBytes(size), used: formatBytes(sum((segment) => segment.in_use_bytes)),
    free: formatBytes(sum((segment) => segment.free_bytes)), gap: formatBytes(segments.reduce((most, segment) => Math.max(most, segment.largest_gap_bytes), 0)),
  });
}

function SegmentName({ segment, number }: { segment: Segment; number: number }): JSX.Element {
  const { pin } = segment;
  const share = segment.size > 0 ? segment.in_use_bytes / segment.size : 0;
  return (
    <div class="segment-name" data-segment={number} style={{ top: `${number * ROW_HEIGHT}px` }}>
      <span class="hex" title={segment.address}>{segment.address}</span>
      <span class="number">{formatBytes(segment.size)}</span>
      <span class="number">{formatPercent(share)}</span>
      <span class="pin-site">
        {pin && (
          <i
            class="swatch" style={{ background: POOL_COLOURS.pin }} role="img" aria-label={say('kind_pin')}
            title={say('pin_text', { bytes: formatBytes(pin.size), age: pin.age_ns === null ? '?' : formatDuration(pin.age_ns) })}
          />
        )}
        {pin?.site ? <SourceButton site={pin.site} /> : null}
      </span>
    </div>
  );
}

function wordsOf(data: PoolData, hit: number): { title: string; lines: string[] } {
  const kind = KINDS[data.kinds[hit]!] ?? 'segment';
  const block = data.blocks[hit]!;
  const segment = data.info.segments[data.segments[hit]!];
  return {
    title: block >= 0 ? `${say('block_number', { n: formatCount(block) })} · ${sayNamed('kind', kind)}` : sayNamed('kind', kind),
    lines: [
      formatBytes(data.end[hit]! - data.begin[hit]!),
      say('at_offset', { bytes: formatBytes(data.begin[hit]!), address: segment?.address ?? '' }),
      ...(data.pins[hit] ? [say('is_pin')] : []),
      ...(data.pins[hit] && segment?.pin?.site ? [shortSite(segment.pin.site)] : []),
    ],
  };
}
