/** Two captures, or two pools of one, below each other's curves: the difference of the moments that are chosen there. */
import type { JSX } from 'preact';
import { useComputed } from '@preact/signals';
import { Choice, Toggle } from '../parts/controls';
import { mainLens, otherLens, session, showWindow, type Lens } from '../state/lens';
import { change, store } from '../state/store';
import { formatBytes } from '../text/numbers';
import { say } from '../words/say';
import { DifferenceTable, type Pair } from './difference_table';

export function ComparisonView(): JSX.Element {
  const pair = useComputed((): Pair | null => {
    const one = pinOf(mainLens);
    const other = pinOf(otherLens);
    return one && other ? { one, other } : null;
  });
  return (
    <section class="view" data-view="comparison" aria-label={say('view_comparison')}>
      <p class="readout">{say('comparison_text', { one: nameOf(mainLens), other: nameOf(otherLens) })}</p>
      <DifferenceTable pair={pair} />
    </section>
  );
}

/** The capture that the right one of the two curves shows. */
export function OtherChooser(): JSX.Element {
  const pools = otherLens.process.value?.pools ?? [];
  return (
    <div class="other-head">
      <Choice
        name="other-process" label={say('compare_with')} value={otherLens.process.value?.process ?? 0}
        options={(session.value?.processes ?? []).map((one) => ({ value: one.process, text: one.name }))}
        onChoose={(otherProcess) => change({ otherProcess, otherPool: 0, otherWindow: null, otherRow: null })}
      />
      <Choice
        name="other-pool" label={say('pool')} value={otherLens.pool.value?.pool ?? 0}
        options={pools.map((one) => ({ value: one.pool, text: `${one.name} · ${formatBytes(one.peak_bytes)}` }))}
        onChoose={(otherPool) => change({ otherPool, otherRow: null })}
      />
      <Toggle
        name="linked" isOn={store.isLinked.value}
        onToggle={(isLinked) => {
          change({ isLinked });
          if (isLinked) showWindow(mainLens, mainLens.window.value);
        }}
      >
        {say('link_windows')}
      </Toggle>
    </div>
  );
}

function pinOf(lens: Lens): { process: number; pool: number; row: number } | null {
  const process = lens.process.value;
  const pool = lens.pool.value;
  const row = lens.row.value;
  return process && pool && row !== null ? { process: process.process, pool: pool.pool, row } : null;
}

function nameOf(lens: Lens): string {
  return `${lens.process.value?.name ?? ''} · ${lens.pool.value?.name ?? ''}`;
}
