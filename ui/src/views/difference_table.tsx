/** What two moments differ in, group by group, with bars. */
import type { JSX } from 'preact';
import { type ReadonlySignal, useComputed } from '@preact/signals';
import { Choice } from '../parts/controls';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { frameAnswer, useAnswer } from '../protocol/answer';
import { largest, type FrameTable } from '../protocol/frame';
import type { DifferenceInfo } from '../protocol/types';
import type { Pin } from '../state/fields';
import { session } from '../state/lens';
import { store } from '../state/store';
import { formatBytes, formatCount, formatSignedBytes } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say, sayNamed } from '../words/say';

const MOST = 500;

export interface Pair {
  one: Pin;
  other: Pin;
}

export function DifferenceTable({ pair }: { pair: ReadonlySignal<Pair | null> }): JSX.Element {
  const parameters = useComputed(() => {
    if (!pair.value) return null;
    const { one, other } = pair.value;
    return {
      process: one.process, pool: one.pool, row: one.row, other_process: other.process, other_pool: other.pool, other_row: other.row,
      by: store.differenceBy.value, most: MOST,
    };
  });
  const answer = useAnswer(() => frameAnswer<DifferenceInfo>(() => parameters.value && { path: 'difference', parameters: parameters.value }));
  const frame = answer.value.value;
  const process = session.value?.processes.find((one) => one.process === pair.value?.one.process);
  return (
    <>
      <div class="view-head">
        <Choice
          name="difference-by" label={say('group_by')} value={store.differenceBy.value}
          options={(process?.groupings ?? ['owner']).map((value) => ({ value, text: sayNamed('by', value) }))}
          onChoose={(by) => { store.differenceBy.value = by; }}
        />
        {frame && <span data-total>{totalText(frame.info)}</span>}
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools name="difference" python={frame?.info.python} download={parameters.value && { what: 'difference', parameters: parameters.value }} />
      </div>
      <Trouble answer={answer} />
      {frame && <Rows table={frame.table} info={frame.info} />}
    </>
  );
}

function totalText({ total }: DifferenceInfo): string {
  return say('difference_total', {
    one: formatBytes(total.bytes), other: formatBytes(total.other_bytes), difference: formatSignedBytes(total.other_bytes - total.bytes),
  });
}

function Rows({ table, info }: { table: FrameTable; info: DifferenceInfo }): JSX.Element {
  const names = table.texts('name');
  const bytes = table.numbers('bytes');
  const others = table.numbers('other_bytes');
  const blocks = table.numbers('blocks');
  const otherBlocks = table.numbers('other_blocks');
  const differences = table.numbers('difference');
  const most = largest(Float64Array.from(differences, Math.abs), 1);
  return (
    <div class="scrolled grow">
      <table class="difference">
        <thead>
          <tr>
            <th scope="col">{say('name')}</th>
            <th scope="col" class="bar-head">{say('difference')}</th>
            <th scope="col" class="number">B − A</th>
            <th scope="col" class="number">{say('bytes_of', { name: 'A' })}</th>
            <th scope="col" class="number">{say('bytes_of', { name: 'B' })}</th>
            <th scope="col" class="number">{say('blocks_of', { name: 'A' })}</th>
            <th scope="col" class="number">{say('blocks_of', { name: 'B' })}</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name, row) => (
            <tr key={name} data-row={row}>
              <td class="text" title={name}>{shortSite(name)}</td>
              <td class="bar-cell" aria-hidden="true">
                <i
                  class={differences[row]! > 0 ? 'bar more' : 'bar less'}
                  style={{ width: `${(50 * Math.abs(differences[row]!)) / most}%`, [differences[row]! > 0 ? 'left' : 'right']: '50%' }}
                />
              </td>
              <td class="number strong">{formatSignedBytes(differences[row]!)}</td>
              <td class="number">{formatBytes(bytes[row]!)}</td>
              <td class="number">{formatBytes(others[row]!)}</td>
              <td class="number">{formatCount(blocks[row]!)}</td>
              <td class="number">{formatCount(otherBlocks[row]!)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {info.more.groups > 0 && (
        <p class="quiet">{say('difference_more', {
          n: formatCount(info.more.groups), one: formatBytes(info.more.bytes), other: formatBytes(info.more.other_bytes),
        })}</p>
      )}
    </div>
  );
}
