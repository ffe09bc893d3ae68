/** The answer to `api/segments` as rectangles: a row for each segment. */
import type { RectangleSet } from '../canvas/rectangles';
import { rgbOf, type Rgb } from '../colour/palette';
import type { Frame, Numbers } from '../protocol/frame';
import type { SegmentsInfo } from '../protocol/types';
import { coloursOf } from './map_data';

export const KINDS = ['segment', 'in_use', 'gap', 'waits'] as const;
export const POOL_COLOURS = { in_use: '#0072b2', waits: '#e69f00', pin: '#d55e00' } as const;

/** How much of a row is drawn; the rest keeps rows apart. */
const FILLED = 0.82;

export interface PoolData extends RectangleSet {
  kinds: Numbers;
  blocks: Numbers;
  segments: Numbers;
  pins: boolean[];
  info: SegmentsInfo;
  longest: number;
}

export function poolData({ info, table }: Frame<SegmentsInfo>, gapColour: string): PoolData {
  const kinds = table.numbers('kind');
  const offset = table.numbers('offset');
  const size = table.numbers('size');
  const segments = table.numbers('segment');
  const pins = table.flags('is_pin');
  const count = table.rowCount;
  const shades: Rgb[] = [gapColour, POOL_COLOURS.in_use, gapColour, POOL_COLOURS.waits, POOL_COLOURS.pin].map(rgbOf);
  const numbers = (value: (row: number) => number): Float64Array => Float64Array.from({ length: count }, (_, row) => value(row));
  return {
    count,
    begin: offset,
    end: numbers((row) => offset[row]! + size[row]!),
    low: numbers((row) => segments[row]!),
    high: numbers((row) => segments[row]! + FILLED),
    colours: coloursOf(numbers((row) => (pins[row] ? 4 : kinds[row]!)), shades),
    kinds, blocks: table.numbers('block'), segments, pins, info,
    longest: info.segments.reduce((most, segment) => Math.max(most, segment.size), 1),
  };
}
