/** Many rectangles in one picture: what is drawn, and the two ways to draw it. */
import type { Numbers } from '../protocol/frame';
import type { Rgb } from '../colour/palette';

/** Rectangles in the coordinates of their data, later ones upon earlier ones. */
export interface RectangleSet {
  count: number;
  begin: Numbers;
  end: Numbers;
  low: Numbers;
  high: Numbers;
  /** Four bytes for each: red, green, blue, alpha. */
  colours: Uint8Array;
}

/** What lies at the edges of the picture. */
export interface Box {
  from: number;
  to: number;
  low: number;
  high: number;
}

export interface Surface {
  width: number;
  height: number;
  /** Device pixels for each pixel of the page. */
  ratio: number;
  /** Whether `low` is at the top, as in a chart of calls. */
  isDownward: boolean;
  ground: Rgb;
}

export interface Painter {
  readonly canvas: HTMLCanvasElement;
  load(rectangles: RectangleSet, box: Box): void;
  /** Draws the first `most` of them. */
  draw(box: Box, surface: Surface, most: number): void;
  dispose(): void;
}

/** Neighbours are told apart by a line between them from this size in pixels on. */
export const SMALLEST_WITH_EDGE = 4;

/** How the coordinates of one box lie in another, as a scale and an offset of shares. */
export function transform(fromLow: number, fromHigh: number, toLow: number, toHigh: number): readonly [number, number] {
  const span = toHigh - toLow || 1;
  return [(fromHigh - fromLow) / span, (fromLow - toLow) / span];
}
