import { describe, expect, it } from 'vitest';
import { afterScroll, scrollHeight, scrollTo, TALLEST, type Scrolled } from '../src/layout/scrolling';
import type { TableColumn } from '../src/protocol/types';
import { filterParameter, isUnderstood, parseBounds, readTyped, writeTyped } from '../src/views/table_filter';

describe('filters', () => {
  it.each([
    ['> 1M', 'bytes', { least: 2 ** 20 + 1 }], ['>=1MiB', 'bytes', { least: 2 ** 20 }], ['< 2G', 'bytes', { most: 2 ** 31 - 1 }],
    ['1M-2G', 'bytes', { least: 2 ** 20, most: 2 ** 31 }], ['42', 'count', { least: 42, most: 42 }], ['<= 20ms', 'time', { most: 20e6 }],
    ['1,000..2,000', 'row', { least: 1000, most: 2000 }], ['= 0x10', 'hex', { least: 16, most: 16 }], ['-5', 'count', { least: -5, most: -5 }],
    ['1.5 s', 'time', { least: 1.5e9, most: 1.5e9 }],
  ])('%s of %s', (text, kind, bounds) => expect(parseBounds(text, kind)).toEqual(bounds));

  it.each([['many', 'bytes'], ['> x', 'bytes'], ['5 apples', 'count'], ['1M', 'count']])('%s of %s means nothing', (text, kind) => {
    expect(parseBounds(text, kind)).toBeNull();
  });

  const columns: TableColumn[] = [
    { column: 'size', label: 'size', kind: 'bytes', filter: 'range' }, { column: 'owner', label: 'owner', kind: 'text', filter: 'text' },
    { column: 'kind', label: 'kind', kind: 'text', filter: 'choice', choices: ['free'] },
  ];

  it('become one parameter, without what is empty or not understood', () => {
    expect(filterParameter(columns, { size: '>=1K', owner: 'PTA', kind: 'free' })).toBe(
      '{"size":{"least":1024},"owner":{"text":"PTA"},"kind":{"any":["free"]}}',
    );
    expect(filterParameter(columns, { size: 'lots', owner: ' ' })).toBe('');
    expect(isUnderstood(columns[0]!, 'lots')).toBe(false);
    expect(isUnderstood(columns[1]!, 'lots')).toBe(true);
  });

  it('are kept as they were typed', () => {
    expect(readTyped(writeTyped({ size: '> 1M', owner: '' }))).toEqual({ size: '> 1M' });
    expect(writeTyped({})).toBe('');
    expect(readTyped('{"size": 5}')).toEqual({});
    expect(readTyped('nonsense')).toEqual({});
  });
});

describe('scrolling', () => {
  const [rows, height, viewport] = [10_000_000, 24, 480];

  it('is pixel by pixel in a table that fits', () => {
    expect(afterScroll({ row: 0, top: 0 }, 240, 1000, height, viewport)).toEqual({ row: 10, top: 240 });
    expect(scrollHeight(1000, height)).toBe(24_000);
  });

  it('moves by rows with the wheel in a table of ten million', () => {
    expect(scrollHeight(rows, height)).toBe(TALLEST);
    let place: Scrolled = scrollTo(5_000_000, rows, height, viewport);
    for (let turn = 0; turn < 10; turn += 1) place = afterScroll(place, place.top + 120, rows, height, viewport);
    expect(place.row).toBeCloseTo(5_000_050, 3);
  });

  it('reaches the first and the last row', () => {
    const last = afterScroll({ row: 5, top: 5 }, TALLEST - viewport, rows, height, viewport);
    expect(last.row + viewport / height).toBe(rows);
    expect(afterScroll(last, 0, rows, height, viewport)).toEqual({ row: 0, top: 0 });
    expect(scrollTo(rows, rows, height, viewport).row + viewport / height).toBe(rows);
  });

  it('goes to a share of the table when the bar is dragged', () => {
    const place = afterScroll({ row: 0, top: 0 }, (TALLEST - viewport) / 2, rows, height, viewport);
    expect(place.row).toBeCloseTo((rows - viewport / height) / 2, 0);
  });
});
