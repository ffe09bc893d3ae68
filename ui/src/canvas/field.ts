/** A field of rectangles on the page: two canvases upon each other (rectangles; words and outlines), and what a pointer or key does there. */
import { rgbOf, type Rgb } from '../colour/palette';
import { beginWork, Redraw } from '../state/work';
import { HitIndex, pointIn } from './hit_index';
import { PlainPainter } from './plain_painter';
import type { Box, Painter, RectangleSet } from './rectangles';
import { resize, WebglPainter } from './webgl_painter';

export interface FieldPoint {
  horizontal: number;
  vertical: number;
  /** Number of the rectangle there, or -1. */
  hit: number;
  /** In pixels within the field. */
  left: number;
  top: number;
}

export interface FieldEvents {
  /** The box to show now. */
  box(): Box;
  ground(): string;
  /** Draws what lies above the rectangles; the context is in pixels of the page. */
  drawAbove?(context: CanvasRenderingContext2D, place: FieldPlace): void;
  onHover?(point: FieldPoint | null): void;
  onClick?(point: FieldPoint, event: PointerEvent): void;
  /** In shares of the field; to the right and downwards are positive. */
  onPan?(right: number, down: number): void;
  /** At a place given as shares of the field. */
  onZoom?(across: number, down: number, factor: number, isVertical: boolean): void;
  onKey?(event: KeyboardEvent): boolean;
  onResize?(width: number, height: number): void;
}

/** Turns data into pixels of the page. */
export interface FieldPlace {
  width: number;
  height: number;
  x(horizontal: number): number;
  y(vertical: number): number;
}

const WHEEL_FACTOR = 1.0015;
const CLICK_SLACK = 4;
const HIT_SLACK = 1.5;

/** While the picture moves, as many of the first rectangles, the largest, are drawn as this machine draws smoothly. */
const SLOW_MS = 30;
const LEAST_MOVING = 10_000;
const REST_MS = 140;

/** Set by tests of the second way to draw. */
const isPlainWanted = (): boolean => document.documentElement.dataset['painter'] === 'plain';

export class Field {
  private painter: Painter;
  private readonly above = document.createElement('canvas');
  private readonly redraw = new Redraw(() => this.drawNext());
  private most = Infinity;
  private lastDrawn = -Infinity;
  private restTimer = 0;
  private endRest: (() => void) | null = null;
  private readonly observer: ResizeObserver;
  private rectangles: RectangleSet | null = null;
  private index: HitIndex | null = null;
  private width = 1;
  private height = 1;
  private drag: { x: number; y: number; isMoved: boolean } | null = null;

  constructor(private readonly host: HTMLElement, private readonly isDownward: boolean, private readonly events: FieldEvents) {
    const canvas = document.createElement('canvas');
    const painter = isPlainWanted() ? null : WebglPainter.make(canvas);
    this.painter = painter ?? new PlainPainter(isPlainWanted() ? canvas : document.createElement('canvas'));
    host.dataset['painter'] = painter ? 'webgl' : 'plain';
    this.painter.canvas.addEventListener('webglcontextlost', this.onLost);
    host.append(this.painter.canvas, this.above);
    for (const layer of [this.painter.canvas, this.above]) layer.setAttribute('aria-hidden', 'true');
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(host);
    host.addEventListener('pointermove', this.onMove);
    host.addEventListener('pointerleave', this.onLeave);
    host.addEventListener('pointerdown', this.onDown);
    host.addEventListener('pointerup', this.onUp);
    host.addEventListener('wheel', this.onWheel, { passive: false });
    host.addEventListener('keydown', this.onKey);
    this.measure();
  }

  load(rectangles: RectangleSet, box: Box): void {
    this.rectangles = rectangles;
    this.index = new HitIndex(rectangles);
    this.painter.load(rectangles, box);
    this.request();
  }

  request(): void {
    this.redraw.request();
  }

  dispose(): void {
    this.redraw.cancel();
    this.endMotion();
    this.observer.disconnect();
    this.painter.canvas.removeEventListener('webglcontextlost', this.onLost);
    this.painter.dispose();
    for (const [name, listener] of [
      ['pointermove', this.onMove], ['pointerleave', this.onLeave], ['pointerdown', this.onDown], ['pointerup', this.onUp],
      ['wheel', this.onWheel], ['keydown', this.onKey],
    ] as const) this.host.removeEventListener(name, listener as EventListener);
    this.painter.canvas.remove();
    this.above.remove();
  }

  /** How many of the rectangles are drawn while the picture moves. */
  get countMoving(): number {
    return Math.round(Math.min(this.most, this.rectangles?.count ?? 0));
  }

  /** Both layers as one picture, on the colour of the page. */
  picture(): HTMLCanvasElement {
    this.draw();
    const whole = document.createElement('canvas');
    resize(whole, this.above.width, this.above.height);
    const context = whole.getContext('2d');
    if (context) {
      context.fillStyle = this.events.ground();
      context.fillRect(0, 0, whole.width, whole.height);
      context.drawImage(this.painter.canvas, 0, 0);
      context.drawImage(this.above, 0, 0);
    }
    return whole;
  }

  /** What lies at a point of the screen. */
  pointAt(clientX: number, clientY: number): FieldPoint {
    const bounds = this.host.getBoundingClientRect();
    const left = clientX - bounds.left;
    const top = clientY - bounds.top;
    const box = this.events.box();
    const point = pointIn(box, left / this.width, top / this.height, this.isDownward);
    const slack = {
      horizontal: (HIT_SLACK * (box.to - box.from)) / this.width,
      vertical: (HIT_SLACK * (box.high - box.low)) / this.height,
    };
    const exact = this.index?.at(point.horizontal, point.vertical) ?? -1;
    const hit = exact >= 0 ? exact : (this.index?.at(point.horizontal, point.vertical, slack) ?? -1);
    return { ...point, hit, left, top };
  }

  /** Draws in a row of frames: fewer rectangles where they come too slowly, and all of them as soon as it is at rest. */
  private drawNext(): void {
    const now = performance.now();
    const pause = now - this.lastDrawn;
    const count = this.rectangles?.count ?? 0;
    if (pause > SLOW_MS && pause < REST_MS) this.most = Math.max(Math.min(this.most, count) * 0.7, LEAST_MOVING);
    this.lastDrawn = now;
    this.draw(this.most);
    this.endMotion();
    if (this.most >= count) return;
    this.endRest = beginWork();
    this.restTimer = window.setTimeout(() => {
      this.most = Infinity;
      this.draw();
      this.endMotion();
    }, REST_MS);
  }

  private endMotion(): void {
    window.clearTimeout(this.restTimer);
    this.endRest?.();
    this.endRest = null;
  }

  private draw(most = Infinity): void {
    const box = this.events.box();
    const ratio = window.devicePixelRatio || 1;
    const ground: Rgb = rgbOf(this.events.ground());
    this.painter.draw(box, { width: this.width, height: this.height, ratio, isDownward: this.isDownward, ground }, most);
    resize(this.above, this.width * ratio, this.height * ratio);
    const context = this.above.getContext('2d');
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.events.drawAbove?.(context, this.place(box));
  }

  private place(box: Box): FieldPlace {
    const { width, height, isDownward } = this;
    const across = width / (box.to - box.from || 1);
    const along = height / (box.high - box.low || 1);
    return {
      width,
      height,
      x: (horizontal) => (horizontal - box.from) * across,
      y: (vertical) => (isDownward ? (vertical - box.low) * along : height - (vertical - box.low) * along),
    };
  }

  private measure(): void {
    const width = Math.max(this.host.clientWidth, 1);
    const height = Math.max(this.host.clientHeight, 1);
    if (width === this.width && height === this.height) return;
    this.width = width;
    this.height = height;
    for (const layer of [this.painter.canvas, this.above]) {
      layer.style.width = `${width}px`;
      layer.style.height = `${height}px`;
    }
    this.events.onResize?.(width, height);
    this.request();
  }

  /** A canvas that had a WebGL context cannot get another kind; a new one takes its place. */
  private readonly onLost = (): void => {
    const plain = new PlainPainter(document.createElement('canvas'));
    this.painter.canvas.replaceWith(plain.canvas);
    this.painter = plain;
    this.host.dataset['painter'] = 'plain';
    plain.canvas.style.width = `${this.width}px`;
    plain.canvas.style.height = `${this.height}px`;
    if (this.rectangles) plain.load(this.rectangles);
    this.request();
  };

  private readonly onMove = (event: PointerEvent): void => {
    if (this.drag && event.buttons) {
      const right = event.clientX - this.drag.x;
      const down = event.clientY - this.drag.y;
      if (!this.drag.isMoved && Math.hypot(right, down) < CLICK_SLACK) return;
      if (!this.drag.isMoved) this.events.onHover?.(null);
      this.drag = { x: event.clientX, y: event.clientY, isMoved: true };
      this.events.onPan?.(right / this.width, down / this.height);
      return;
    }
    this.events.onHover?.(this.pointAt(event.clientX, event.clientY));
  };

  private readonly onLeave = (): void => this.events.onHover?.(null);

  private readonly onDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, y: event.clientY, isMoved: false };
    this.host.setPointerCapture(event.pointerId);
  };

  private readonly onUp = (event: PointerEvent): void => {
    const isClick = this.drag !== null && !this.drag.isMoved;
    this.drag = null;
    if (isClick) this.events.onClick?.(this.pointAt(event.clientX, event.clientY), event);
  };

  private readonly onWheel = (event: WheelEvent): void => {
    if (!this.events.onZoom) return;
    event.preventDefault();
    const amount = event.deltaMode === 1 ? event.deltaY * 33 : event.deltaY;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.events.onPan?.(-(event.deltaX || amount) / this.width, 0);
      return;
    }
    const bounds = this.host.getBoundingClientRect();
    this.events.onZoom(
      (event.clientX - bounds.left) / this.width, (event.clientY - bounds.top) / this.height, WHEEL_FACTOR ** amount,
      event.altKey || event.ctrlKey,
    );
  };

  private readonly onKey = (event: KeyboardEvent): void => {
    if (this.events.onKey?.(event)) event.preventDefault();
  };
}
