/** What browser tests use: to wait until the page is at rest, and to measure how fast it draws. */
import { Field } from './canvas/field';
import type { Box } from './canvas/rectangles';
import { coloursOf } from './views/map_data';
import { SERIES, rgbOf } from './colour/palette';
import { idle } from './state/work';

export interface FrameRate {
  painter: string;
  /** The fewest rectangles that were drawn in a frame: a slow machine draws the largest while the picture moves. */
  drawn: number;
  frames: number;
  perSecond: number;
  /** Milliseconds of one frame, in the middle of all. */
  frameMs: number;
}

/** Pans for a while over random rectangles, which together cover about the picture as blocks do, and reports how many frames
    were drawn, each of them waited for. */
async function frames(count = 100_000, milliseconds = 2000): Promise<FrameRate> {
  const host = document.createElement('div');
  host.className = 'field measured';
  document.body.append(host);
  let seed = 1;
  const random = (): number => {
    seed = (seed * 16807) % 2147483647;
    return seed / 2147483647;
  };
  const begin = Float64Array.from({ length: count }, random);
  const low = Float64Array.from({ length: count }, random);
  const rectangles = {
    count, begin, end: begin.map((value) => value + random() * 0.01), low, high: low.map((value) => value + random() * 0.002),
    colours: coloursOf(Uint32Array.from({ length: count }, () => Math.floor(random() * SERIES.length)), SERIES.map(rgbOf)),
  };
  let box: Box = { from: 0, to: 0.8, low: 0, high: 1 };
  const field = new Field(host, false, { box: () => box, ground: () => '#ffffff' });
  field.load(rectangles, box);
  await idle();
  const pixel = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  let drawn = count;
  const times: number[] = [];
  const started = performance.now();
  while (performance.now() - started < milliseconds) {
    const before = performance.now();
    const from = 0.2 * Math.abs(Math.sin((before - started) / 500));
    box = { ...box, from, to: from + 0.8 };
    field.request();
    await new Promise((resolve) => requestAnimationFrame(resolve));
    // Drawing is finished only when something of it can be read.
    const picture = host.querySelector('canvas');
    if (picture) pixel?.drawImage(picture, 0, 0);
    pixel?.getImageData(0, 0, 1, 1);
    drawn = Math.min(drawn, field.countMoving);
    times.push(performance.now() - before);
  }
  const seconds = (performance.now() - started) / 1000;
  const painter = host.dataset['painter'] ?? '';
  field.dispose();
  host.remove();
  times.sort((one, other) => one - other);
  return { painter, drawn, frames: times.length, perSecond: times.length / seconds, frameMs: times[times.length >> 1] ?? 0 };
}

declare global {
  interface Window {
    msmemscopeView: { idle: typeof idle; frames: typeof frames };
  }
}

export function exposeHooks(): void {
  window.msmemscopeView = { idle, frames };
}
