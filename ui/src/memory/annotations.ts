/** What is drawn upon the curve: steps, marks, ranges, snapshots, failed allocations, the chosen moment and range. */
import type { Marks } from '../protocol/types';
import { FAILED_COLOUR, MARK_COLOUR, type Theme } from '../colour/palette';
import { formatBytes } from '../text/numbers';
import { say } from '../words/say';
import type { Range } from '../state/fields';
import type { Annotation } from './nearest_annotation';

export interface AnnotationPlace {
  context: CanvasRenderingContext2D;
  theme: Theme;
  left: number;
  top: number;
  width: number;
  height: number;
  x(position: number): number;
}

export interface Moments {
  moment: number | null;
  range: Range | null;
  pins: readonly { name: string; position: number }[];
  pointed: number | null;
}

const SNAPSHOT_COLOUR = '#009e73';
const STEP_LABEL_WIDTH = 34;
const FONT = '11px system-ui, sans-serif';

export function annotationsOf(marks: Marks): Annotation[] {
  const at = (position: number, text: string): Annotation => ({ from: position, to: position, text });
  return [
    ...marks.failures.items.map((one) => at(one.position, `${say('failed_allocation')}: ${formatBytes(one.bytes)}. ${one.text}`)),
    ...marks.snapshots.items.map((one) => at(one.position, `${say('snapshot')}: ${one.text}`)),
    ...marks.marks.items.map((one) => at(one.position, `${say('mark')}: ${one.text}`)),
    ...marks.steps.items.map((one) => at(one.position, say('step_begins', { n: one.number }))),
    ...marks.ranges.items.map((one) => ({ from: one.position, to: one.end, text: `${say('range')}: ${one.text}` })),
  ];
}

export function drawMarks(marks: Marks, place: AnnotationPlace): void {
  const { context, theme, left, top, width, height, x } = place;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.font = FONT;
  context.textBaseline = 'top';
  context.textAlign = 'left';
  drawSteps(marks, place);
  for (const range of marks.ranges.items) {
    context.fillStyle = MARK_COLOUR;
    context.globalAlpha = 0.75;
    context.fillRect(x(range.position), top + height - 5, Math.max(x(range.end) - x(range.position), 1), 4);
    context.globalAlpha = 1;
  }
  for (const mark of marks.marks.items) triangle(context, x(mark.position), top + height, -8, MARK_COLOUR);
  for (const snapshot of marks.snapshots.items) {
    upright(place, snapshot.position, SNAPSHOT_COLOUR, [4, 3]);
    triangle(context, x(snapshot.position), top, 8, SNAPSHOT_COLOUR);
  }
  for (const failure of marks.failures.items) {
    upright(place, failure.position, FAILED_COLOUR, [], 2);
    cross(context, x(failure.position), top + 8, FAILED_COLOUR, theme.ground);
  }
  context.restore();
}

function drawSteps(marks: Marks, place: AnnotationPlace): void {
  const { context, theme, top, x } = place;
  let free = -Infinity;
  for (const step of marks.steps.items) {
    context.globalAlpha = 0.45;
    upright(place, step.position, theme.quiet, []);
    context.globalAlpha = 1;
    if (x(step.position) < free) continue;
    const text = String(step.number);
    const wide = context.measureText(text).width + 6;
    context.fillStyle = theme.ground;
    context.globalAlpha = 0.8;
    context.fillRect(x(step.position) + 1, top, wide, 13);
    context.globalAlpha = 1;
    context.fillStyle = theme.quiet;
    context.fillText(text, x(step.position) + 4, top + 1);
    free = x(step.position) + Math.max(STEP_LABEL_WIDTH, wide);
  }
}

export function drawMoments({ moment, range, pins, pointed }: Moments, place: AnnotationPlace): void {
  const { context, theme, left, top, width, height, x } = place;
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  if (range) {
    context.fillStyle = theme.shade;
    context.fillRect(x(range.from), top, x(range.to) - x(range.from), height);
    upright(place, range.from, theme.link, [2, 2]);
    upright(place, range.to, theme.link, [2, 2]);
  }
  for (const pin of pins) {
    upright(place, pin.position, theme.link, []);
    flag(context, x(pin.position), top + 14, pin.name, theme.link, theme.ground);
  }
  if (pointed !== null) upright(place, pointed, theme.quiet, [3, 3]);
  if (moment !== null) {
    upright(place, moment, theme.ink, [], 1.5);
    triangle(context, x(moment), top, 7, theme.ink);
  }
  context.restore();
}

function upright({ context, top, height, x }: AnnotationPlace, position: number, colour: string, dashes: number[], width = 1): void {
  const across = Math.round(x(position)) + 0.5;
  context.beginPath();
  context.setLineDash(dashes);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.moveTo(across, top);
  context.lineTo(across, top + height);
  context.stroke();
  context.setLineDash([]);
}

function triangle(context: CanvasRenderingContext2D, x: number, y: number, size: number, colour: string): void {
  context.beginPath();
  context.fillStyle = colour;
  context.moveTo(x - Math.abs(size) * 0.7, y);
  context.lineTo(x + Math.abs(size) * 0.7, y);
  context.lineTo(x, y + size);
  context.fill();
}

function cross(context: CanvasRenderingContext2D, x: number, y: number, colour: string, ground: string): void {
  context.fillStyle = ground;
  context.beginPath();
  context.arc(x, y, 7, 0, 2 * Math.PI);
  context.fill();
  context.strokeStyle = colour;
  context.lineWidth = 2.5;
  context.beginPath();
  context.moveTo(x - 4, y - 4);
  context.lineTo(x + 4, y + 4);
  context.moveTo(x + 4, y - 4);
  context.lineTo(x - 4, y + 4);
  context.stroke();
}

function flag(context: CanvasRenderingContext2D, x: number, y: number, text: string, colour: string, ink: string): void {
  context.fillStyle = colour;
  context.fillRect(x, y, 15, 15);
  context.fillStyle = ink;
  context.font = `bold ${FONT}`;
  context.textBaseline = 'top';
  context.textAlign = 'left';
  context.fillText(text, x + 4, y + 2);
}
