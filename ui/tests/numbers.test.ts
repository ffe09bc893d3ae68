import { describe, expect, it } from 'vitest';
import {
  formatBytes, formatCell, formatCount, formatDuration, formatExactTime, formatPercent, formatSignedBytes, formatTime,
} from '../src/text/numbers';
import { binaryTicks, decimalTicks } from '../src/text/ticks';
import sizes from './sizes.json';

describe('bytes', () => {
  it('are written as `units.format_bytes` writes them', () => {
    for (const [size, text] of sizes as [number, string][]) expect(formatBytes(size)).toBe(text);
  });
  it.each([
    [0, '0 bytes'], [1, '1 byte'], [1023, '1023 bytes'], [1024, '1.00 KiB'], [1536, '1.50 KiB'], [12.34 * 2 ** 20, '12.3 MiB'],
    [512 * 2 ** 30, '512 GiB'], [2 ** 30 - 1, '1.00 GiB'], [-2048, '-2.00 KiB'],
  ])('%d are %s', (size, text) => expect(formatBytes(size)).toBe(text));
  it('marks a growth', () => {
    expect(formatSignedBytes(1024)).toBe('+1.00 KiB');
    expect(formatSignedBytes(-1024)).toBe('-1.00 KiB');
    expect(formatSignedBytes(0)).toBe('0 bytes');
  });
});

describe('time', () => {
  it.each([[0, '0 ns'], [999, '999 ns'], [1500, '1.50 µs'], [20e6, '20.0 ms'], [1.5e9, '1.50 s'], [150e9, '2 min 30.0 s'], [-2e6, '-2.00 ms']])(
    '%d ns are %s', (time, text) => expect(formatDuration(time)).toBe(text),
  );
  it('is as exact as the step between neighbours', () => {
    expect(formatTime(12_345_678_901, 1e9)).toBe('12 s');
    expect(formatTime(12_345_678_901, 1e6)).toBe('12.346 s');
    expect(formatTime(12_345_678_901, 1)).toBe('12.345678901 s');
    expect(formatTime(0, 2e9)).toBe('0 s');
  });
  it('has six digits in tables', () => expect(formatExactTime(8_551_234_567)).toBe('8.55123 s'));
});

it('groups digits and shows shares', () => {
  expect(formatCount(1234567)).toBe('1,234,567');
  expect(formatPercent(0.0123)).toBe('1.2 %');
  expect(formatPercent(0.5)).toBe('50 %');
});

it('shows a cell by its kind, and nothing for what is missing', () => {
  expect(formatCell(2048, 'bytes')).toBe('2.00 KiB');
  expect(formatCell(255, 'hex')).toBe('0xff');
  expect(formatCell(null, 'bytes')).toBe('');
  expect(formatCell(true, 'bool')).toBe('✓');
  expect(formatCell('<b>', 'text')).toBe('<b>');
});

describe('ticks', () => {
  it('are round and lie within', () => {
    expect(decimalTicks(3, 47, 5)).toEqual([10, 20, 30, 40]);
    expect(binaryTicks(0, 5 * 2 ** 30, 6)).toEqual([0, 1, 2, 3, 4, 5].map((number) => number * 2 ** 30));
  });
  it('have no steps below one, and survive an empty stretch', () => {
    expect(decimalTicks(0, 2, 100)).toEqual([0, 1, 2]);
    expect(decimalTicks(5, 5, 4)).toEqual([5]);
  });
});
