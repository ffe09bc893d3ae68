/** The answer to `api/blocks` as rectangles with colours. */
import type { RectangleSet } from '../canvas/rectangles';
import { rgbOf, sequential, type Rgb } from '../colour/palette';
import { colourOfGroup } from '../colour/series';
import type { Frame, Numbers } from '../protocol/frame';
import type { BlocksInfo } from '../protocol/types';

/** Colours by `age` and `size` are places on a scale, and no groups. */
export function isScale(colour: string): boolean {
  return colour === 'age' || colour === 'size';
}

const SCALE: readonly Rgb[] = Array.from({ length: 256 }, (_, place) => sequential(place / 255));

export interface MapData extends RectangleSet {
  blocks: Numbers;
  groups: Numbers;
  neverFreed: boolean[];
  info: BlocksInfo;
  colour: string;
}

export function mapData({ info, table }: Frame<BlocksInfo>, colour: string): MapData {
  const groups = table.numbers('colour');
  const shades = isScale(colour) ? SCALE : info.colours.map((one) => rgbOf(colourOfGroup(colour, one.name, one.key === null)));
  return {
    count: table.rowCount, begin: table.numbers('begin'), end: table.numbers('end'), low: table.numbers('low'), high: table.numbers('high'),
    colours: coloursOf(groups, shades), blocks: table.numbers('block'), groups, neverFreed: table.flags('is_never_freed'), info, colour,
  };
}

/** Four bytes for each rectangle from the number of its colour. */
export function coloursOf(numbers: Numbers, shades: readonly Rgb[]): Uint8Array {
  const colours = new Uint8Array(numbers.length * 4);
  for (let number = 0; number < numbers.length; number += 1) {
    const [red, green, blue] = shades[Math.min(numbers[number]!, shades.length - 1)] ?? [128, 128, 128];
    colours.set([red, green, blue, 255], number * 4);
  }
  return colours;
}

/** The area of what was not sent, upon what was: its lower and upper edge at each place. */
export function smallArea(data: MapData): { position: number[]; lower: number[]; upper: number[] } | null {
  const small = data.info.small_columns;
  if (!small || small.position.length < 2) return null;
  const count = small.position.length;
  const first = small.position[0]!;
  const width = (small.position[count - 1]! - first) / (count - 1) || 1;
  const lower = new Array<number>(count).fill(0);
  for (let number = 0; number < data.count; number += 1) {
    const from = Math.max(Math.ceil((data.begin[number]! - first) / width), 0);
    const to = Math.min(Math.floor((data.end[number]! - first) / width), count - 1);
    for (let column = from; column <= to; column += 1) lower[column] = Math.max(lower[column]!, data.high[number]!);
  }
  return { position: small.position, lower, upper: lower.map((bytes, column) => bytes + small.bytes[column]!) };
}
