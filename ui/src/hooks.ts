/** What browser tests use: to wait until the page is at rest, and to measure how fast it draws. */
import { Field } from './canvas/field';
import type { Box } from './canvas/rectangles';
import { coloursOf } from './views/map_data';
import { SERIES, rgbOf } from './colour/palette';
import { idle } from './state/work';

export interface FrameRate {
  painter: string;
  frames: number;
  perSecond: number;
  /** Milliseconds that one frame took to draw, in the middle of all. */
  drawMs: number;
}

/** Pans for a while over random rectangles, which together cover about the picture as blocks do, and reports how many frames
    were drawn, each of them read back. */
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
  const times: number[] = [];
  const started = performance.now();
  while (performance.now() - started < milliseconds) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const from = 0.2 * Math.abs(Math.sin((performance.now() - started) / 500));
    box = { ...box, from, to: from + 0.8 };
    const before = performance.now();
    // Drawing is finished only when something of it can be read.
    field.picture().getContext('2d')?.getImageData(0, 0, 1, 1);
    times.push(performance.now() - before);
  }
  const seconds = (performance.now() - started) / 1000;
  const painter = host.dataset['painter'] ?? '';
  field.dispose();
  host.remove();
  times.sort((one, other) => one - other);
  return { painter, frames: times.length, perSecond: times.length / seconds, drawMs: times[times.length >> 1] ?? 0 };
}

declare global {
  interface Window {
    msmemscopeView: { idle: typeof idle; frames: typeof frames };
  }
}

export function exposeHooks(): void {
  window.msmemscopeView = { idle, frames };
}
