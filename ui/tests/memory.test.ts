import { describe, expect, it } from 'vitest';
import { rgbOf } from '../src/colour/palette';
import { colourOfGroup } from '../src/colour/series';
import { tableFromArrays, tableToIPC } from '@uwdata/flechette';
import { nearestAnnotation } from '../src/memory/nearest_annotation';
import { columnAt, memoryColumns } from '../src/memory/columns';
import { escapeXml } from '../src/memory/drawing';
import { decodeFrame, type Frame } from '../src/protocol/frame';
import type { BlocksInfo, MemoryInfo } from '../src/protocol/types';
import { mapData, smallArea } from '../src/views/map_data';
import { shortFrame, shortSite, isSite } from '../src/text/sites';

function answer<Info>(info: Info, columns: Record<string, number[] | boolean[]>): Frame<Info> {
  const text = new TextEncoder().encode(JSON.stringify(info));
  const arrow = tableToIPC(tableFromArrays(columns), { format: 'stream' }) as Uint8Array;
  const bytes = new Uint8Array(4 + text.length + arrow.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  bytes.set(arrow, 4 + text.length);
  return decodeFrame<Info>(bytes.buffer);
}

describe('columns of the curve', () => {
  const info: MemoryInfo = {
    from: 100, to: 200, by: 'owner', window_peak: null, python: '',
    groups: [{ name: 'a', is_rest: false, key: 1 }, { name: 'rest', is_rest: true, key: null }],
  };
  const columns = memoryColumns(answer(info, {
    position: [110, 199], row: [5, 9], most: [30, 50], least: [0, 10], reserved: [64, -1], step: [0, -1], g0: [10, 20], g1: [20, 30],
  }));

  it('stack up to what is in use', () => {
    expect([...columns.tops[1]!]).toEqual([30, 50, 50]);
    expect([...columns.edges]).toEqual([100, 150, 200]);
    expect(columns.highest).toBe(64);
  });

  it('leave gaps where the reserved bytes are not known', () => expect([...columns.reserved!]).toEqual([64, Number.NaN, Number.NaN]));

  it('are found by position', () => {
    expect([columnAt(columns, 100), columnAt(columns, 149), columnAt(columns, 150), columnAt(columns, 999)]).toEqual([0, 0, 1, 1]);
  });
});

it('puts what was not sent upon what was', () => {
  const info: BlocksInfo = {
    shown: 2, small: { blocks: 5, bytes: 7, byte_share: 0.1 }, colours: [{ name: 'a', key: 0 }], low: 0, high: 100, python: '',
    small_columns: { position: [0, 10, 20], bytes: [1, 2, 3] },
  };
  const data = mapData(answer(info, { block: [0, 1], begin: [0, 10], end: [15, 12], low: [0, 40], high: [40, 60], colour: [0, 0], is_never_freed: [false, true] }), 'owner');
  expect(smallArea(data)).toEqual({ position: [0, 10, 20], lower: [40, 60, 0], upper: [41, 62, 3] });
  expect([...data.colours.subarray(0, 4)]).toEqual([...rgbOf(colourOfGroup('owner', 'a')), 255]);
});

it('points at the nearest mark, and else at the range it lies in', () => {
  const marks = [{ from: 0, to: 100, text: 'range' }, { from: 50, to: 50, text: 'near' }, { from: 53, to: 53, text: 'far' }];
  expect(nearestAnnotation(marks, 51, 5)?.text).toBe('near');
  expect(nearestAnnotation(marks, 80, 5)?.text).toBe('range');
  expect(nearestAnnotation(marks, 200, 5)).toBeNull();
});

it('puts hostile names into drawings as text', () => {
  expect(escapeXml('<script>"&\u0000')).toBe('&lt;script&gt;&quot;&amp;\ufffd');
});

it('shortens sites and frames', () => {
  expect(shortFrame('/a/b/c.py(3): run')).toBe('run · c.py:3');
  expect(shortSite('/home/u/p/model/layer.py(3): run')).toBe('…/p/model/layer.py(3): run');
  expect(shortSite('train.py(3): run')).toBe('train.py(3): run');
  expect(isSite('train.py(3): run')).toBe(true);
  expect(isSite('(12 smaller)')).toBe(false);
});
