/** The answer to `api/calls` as rectangles: tracks below each other, each with a row for its name. */
import type { RectangleSet } from '../canvas/rectangles';
import { rgbOf } from '../colour/palette';
import { colourOfName } from '../colour/series';
import type { Frame } from '../protocol/frame';
import type { CallsInfo } from '../protocol/types';

export interface CallsData extends RectangleSet {
  names: string[];
  /** The row of each track's name. */
  headings: number[];
  rowCount: number;
  info: CallsInfo;
}

export function callsData({ info, table }: Frame<CallsInfo>): CallsData {
  const headings: number[] = [];
  let next = 0;
  for (const track of info.tracks) {
    headings.push(next);
    next += 1 + track.depth;
  }
  const count = table.rowCount;
  const tracks = table.numbers('track');
  const depths = table.numbers('depth');
  const names = table.texts('name');
  const low = Float64Array.from({ length: count }, (_, call) => (headings[tracks[call]!] ?? 0) + 1 + depths[call]!);
  const colours = new Uint8Array(count * 4);
  const shades = new Map<string, number[]>();
  for (let call = 0; call < count; call += 1) {
    let shade = shades.get(names[call]!);
    if (!shade) shades.set(names[call]!, (shade = [...rgbOf(colourOfName(names[call]!)), 255]));
    colours.set(shade, call * 4);
  }
  return {
    count, begin: table.numbers('begin'), end: table.numbers('end'), low, high: low.map((row) => row + 1), colours, names, headings,
    rowCount: Math.max(next, 1), info,
  };
}
