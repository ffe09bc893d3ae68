/** Draws rectangles without WebGL2: slower, and the same picture. */
import { hexOf } from '../colour/palette';
import { SMALLEST_WITH_EDGE, type Box, type Painter, type RectangleSet, type Surface } from './rectangles';
import { resize } from './webgl_painter';

export class PlainPainter implements Painter {
  private rectangles: RectangleSet | null = null;

  constructor(readonly canvas: HTMLCanvasElement) {}

  load(rectangles: RectangleSet): void {
    this.rectangles = rectangles;
  }

  draw(box: Box, surface: Surface, most: number): void {
    const { canvas, rectangles } = this;
    resize(canvas, surface.width * surface.ratio, surface.height * surface.ratio);
    const context = canvas.getContext('2d');
    if (!context) return;
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (!rectangles) return;
    const { begin, end, low, high, colours } = rectangles;
    const across = canvas.width / (box.to - box.from || 1);
    const along = canvas.height / (box.high - box.low || 1);
    let style = -1;
    for (let number = 0; number < Math.min(rectangles.count, most); number += 1) {
      const left = (begin[number]! - box.from) * across;
      const right = Math.max((end[number]! - box.from) * across, left + 1);
      const upper = surface.isDownward ? (low[number]! - box.low) * along : canvas.height - (high[number]! - box.low) * along;
      const height = Math.max((high[number]! - low[number]!) * along, 1);
      if (right < 0 || left > canvas.width || upper + height < 0 || upper > canvas.height) continue;
      const next = (colours[number * 4]! << 16) | (colours[number * 4 + 1]! << 8) | colours[number * 4 + 2]!;
      if (next !== style) {
        style = next;
        context.fillStyle = hexOf([next >> 16, (next >> 8) & 255, next & 255]);
      }
      const isWide = right - left >= SMALLEST_WITH_EDGE;
      const isTall = height >= SMALLEST_WITH_EDGE;
      context.fillRect(left, upper, right - left - (isWide ? 1 : 0), height - (isTall ? 1 : 0));
    }
  }

  dispose(): void {
    this.rectangles = null;
  }
}
