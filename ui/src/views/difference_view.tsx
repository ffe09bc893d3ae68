/** The difference of two pinned moments, also of different processes. */
import type { JSX } from 'preact';
import { useComputed } from '@preact/signals';
import { pinPlaces } from '../memory/pins';
import type { Pin } from '../state/fields';
import { session } from '../state/lens';
import { change, store } from '../state/store';
import { formatBytes, formatCount } from '../text/numbers';
import { say } from '../words/say';
import { DifferenceTable, type Pair } from './difference_table';

export function DifferenceView(): JSX.Element {
  const pair = useComputed((): Pair | null => {
    const one = store.pinA.value;
    const other = store.pinB.value;
    return one && other ? { one, other } : null;
  });
  return (
    <section class="view" data-view="difference" aria-label={say('view_difference')}>
      <div class="pins">
        <PinText name="A" pin={store.pinA.value} onClear={() => change({ pinA: null })} />
        <button
          type="button" data-action="swap" disabled={!pair.value}
          onClick={() => change({ pinA: store.pinB.value, pinB: store.pinA.value })}
        >⇄</button>
        <PinText name="B" pin={store.pinB.value} onClear={() => change({ pinB: null })} />
      </div>
      {pair.value ? <DifferenceTable pair={pair} /> : <p class="quiet empty">{say('pin_both')}</p>}
    </section>
  );
}

function PinText({ name, pin, onClear }: { name: 'A' | 'B'; pin: Pin | null; onClear: () => void }): JSX.Element {
  const place = pinPlaces[name].value.value;
  const process = session.value?.processes.find((one) => one.process === pin?.process);
  const pool = process?.pools.find((one) => one.pool === pin?.pool);
  return (
    <span class="pin" data-pin={name}>
      <b>{name}</b>
      {pin === null ? <span class="quiet">{say('not_pinned')}</span> : (
        <>
          <button
            type="button" class="plain" title={say('go_to_moment')}
            onClick={() => change({
              ...(pin.process === store.process.value ? {} : { process: pin.process, window: null, range: null, block: null }), pool: pin.pool, row: pin.row,
            })}
          >
            {process?.name} · {pool?.name} · {place ? say('event_number', { n: formatCount(place.sequence) }) : ''}
          </button>
          <span class="quiet">{place ? formatBytes(place.in_use_bytes) : ''}</span>
          <button type="button" aria-label={say('clear')} onClick={onClear}>×</button>
        </>
      )}
    </span>
  );
}
