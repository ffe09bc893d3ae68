/** The moment and the range that all views look at, in words, and what can be done with them. */
import type { JSX } from 'preact';
import type { Pin } from '../state/fields';
import { mainLens, showWindow } from '../state/lens';
import { change, store } from '../state/store';
import { formatBytes, formatCount, formatPosition, formatSpan } from '../text/numbers';
import { say } from '../words/say';

/** The chosen moment as a pin. */
export function pinned(): Pin | null {
  const process = mainLens.process.value;
  const pool = mainLens.pool.value;
  const row = mainLens.row.value;
  return process && pool && row !== null ? { process: process.process, pool: pool.pool, row } : null;
}

export function stepEvent(by: number): void {
  const row = mainLens.row.value;
  const count = mainLens.process.value?.counts.events ?? 0;
  if (row !== null) store.row.value = Math.min(Math.max(row + by, -1), count - 1);
}

export function MomentBar(): JSX.Element {
  const moment = mainLens.moment.value.value;
  const axis = mainLens.axis.value;
  const { range } = store;
  const { from, to } = mainLens.window.value;
  return (
    <div class="moment-bar" data-moment-bar>
      <span class="moment" data-moment data-row={mainLens.row.value ?? ''}>
        <strong>{store.row.value === null ? say('moment_peak') : say('moment')}</strong>{' '}
        {moment && [
          ...(axis === 'time' ? [formatPosition(moment.position, axis, (to - from) / 1000)] : []),
          say('event_number', { n: formatCount(moment.sequence) }),
          say('in_blocks', { bytes: formatBytes(moment.in_use_bytes), n: formatCount(moment.block_count) }),
        ].join(' · ')}
      </span>
      <span class="group">
        <button type="button" data-action="previous-event" title={say('previous_event')} aria-label={say('previous_event')} onClick={() => stepEvent(-1)}>‹</button>
        <button type="button" data-action="next-event" title={say('next_event')} aria-label={say('next_event')} onClick={() => stepEvent(1)}>›</button>
        <button type="button" data-action="peak" aria-pressed={store.row.value === null} onClick={() => { store.row.value = null; }}>{say('peak')}</button>
        <button type="button" data-action="pin-a" aria-pressed={store.pinA.value !== null} onClick={() => change({ pinA: pinned() })}>{say('pin', { name: 'A' })}</button>
        <button type="button" data-action="pin-b" aria-pressed={store.pinB.value !== null} onClick={() => change({ pinB: pinned() })}>{say('pin', { name: 'B' })}</button>
      </span>
      {range.value && (
        <span class="group" data-range>
          <span>{say('range_chosen', {
            from: formatPosition(range.value.from, axis, (to - from) / 1000), span: formatSpan(range.value.to - range.value.from, axis),
          })}</span>
          <button type="button" data-action="zoom-range" onClick={() => { if (range.value) showWindow(mainLens, range.value); }}>{say('zoom_in')}</button>
          <button type="button" data-action="clear-range" onClick={() => { range.value = null; }}>{say('clear')}</button>
        </span>
      )}
    </div>
  );
}
