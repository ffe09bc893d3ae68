import { describe, expect, it } from 'vitest';
import { FIELDS, groupedBySite, readState, writeState, type State } from '../src/state/fields';

const initial = readState('');

describe('the address', () => {
  it('is empty for what is shown at first', () => expect(writeState(initial)).toBe(''));

  it('holds everything that can be chosen', () => {
    const state: State = {
      view: 'flame', process: 3, pool: 1, axis: 'events', by: 'site', window: { from: 10, to: 2 ** 50 }, range: { from: 20, to: 30 }, row: -1, block: 77,
      site: '/a b/ä#&=~.py(3): 方法', search: '0x7f&x=1', pinA: { process: 0, pool: 1, row: -1 }, pinB: { process: 2, pool: 0, row: 99 },
      mapLayout: 'stacked', mapColour: 'age', mapHeight: { from: 0, to: 4096 }, measure: 'byte_seconds', flameBy: 'owner', frames: 'all',
      isUpward: true, node: 0, ownerNode: 12, differenceBy: 'stream', otherProcess: 0, otherPool: 2, otherWindow: { from: 1, to: 5 }, otherRow: 8,
      isLinked: true, blocksSort: '-size', blocksFilter: '{"size":"> 1M"}', blocksInWindow: true, eventsSort: 'time', eventsFilter: '{"kind":"free"}',
      eventsInWindow: true, finding: 'leaks',
    };
    expect(readState(`#${writeState(state)}`)).toEqual(state);
    for (const key of Object.keys(FIELDS)) expect(state[key as keyof State], key).not.toEqual(initial[key as keyof State]);
  });

  it('is as if empty where it is not understood', () => {
    expect(readState('#view=<script>&process=-x&window=9~3&row=1e99&a=1~2&other.linked=yes&unknown=1')).toEqual(initial);
  });

  it('groups by call site where no owner is known, but for what it chooses itself', () => {
    expect(groupedBySite('')).toEqual({ by: 'site', mapColour: 'site', differenceBy: 'site' });
    expect(groupedBySite('#by=operator&map.colour=age')).toEqual({ differenceBy: 'site' });
  });
});
