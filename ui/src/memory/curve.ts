/** The curve of memory over time, drawn by uPlot: stacked groups, the reserved line, and what is drawn upon them. */
import uPlot from 'uplot';
import { colourOfGroup } from '../colour/series';
import type { Theme } from '../colour/palette';
import type { Range } from '../state/fields';
import { binaryTicks, decimalTicks } from '../text/ticks';
import { formatBytes, formatPosition, type AxisName } from '../text/numbers';
import type { AnnotationPlace } from './annotations';
import type { MemoryColumns } from './columns';

/** Room for the labels left of every picture over time, so that all of them are aligned. */
export const GUTTER = 76;

export interface CurveEvents {
  onSelect(range: Range, isShifted: boolean): void;
  onClick(position: number): void;
  onPoint(position: number | null): void;
  onZoom(position: number, factor: number): void;
  onPan(share: number): void;
  onReset(): void;
  drawAbove(place: AnnotationPlace): void;
}

export interface CurveLook {
  theme: Theme;
  axis: AxisName;
}

/** The labels of steps have room above the curve. */
const HEADROOM = 1.14;
const TICK_WIDTH = 110;
const TICK_HEIGHT = 34;

export class Curve {
  private plot: uPlot | null = null;
  private shape = '';
  private look: CurveLook | null = null;
  private window: Range = { from: 0, to: 1 };
  private isShifted = false;
  private downAt = 0;

  constructor(private readonly host: HTMLElement, private readonly events: CurveEvents) {}

  get canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  show(columns: MemoryColumns, window: Range, look: CurveLook, width: number, height: number): void {
    this.window = window;
    this.look = look;
    // uPlot fixes its series when it is made.
    const shape = JSON.stringify([columns.by, columns.groups.map((group) => group.name), columns.reserved !== null, look.axis, look.theme.ground]);
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.make(columns, width, height);
    } else {
      if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
      this.plot.setData(dataOf(columns), false);
    }
    this.plot?.batch(() => {
      this.plot?.setScale('x', { min: window.from, max: window.to });
      this.plot?.setScale('y', { min: 0, max: columns.highest * HEADROOM });
    });
  }

  /** Moves the window over what is there until the next answer comes. */
  move(window: Range): void {
    this.window = window;
    this.plot?.setScale('x', { min: window.from, max: window.to });
  }

  redraw(): void {
    this.plot?.redraw(false);
  }

  dispose(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private make(columns: MemoryColumns, width: number, height: number): void {
    this.plot?.destroy();
    this.plot = new uPlot(this.options(columns, width, height), dataOf(columns), this.host);
    const { over } = this.plot;
    over.addEventListener('wheel', (event) => this.onWheel(event), { passive: false });
    over.addEventListener('mousedown', (event) => {
      this.isShifted = event.shiftKey;
      this.downAt = event.clientX;
    }, { capture: true });
    over.addEventListener('click', (event) => {
      if (Math.abs(event.clientX - this.downAt) < 4) this.events.onClick(this.positionAt(event));
    });
    over.addEventListener('mousemove', (event) => this.events.onPoint(this.positionAt(event)));
    over.addEventListener('mouseleave', () => this.events.onPoint(null));
  }

  private options(columns: MemoryColumns, width: number, height: number): uPlot.Options {
    const { theme, axis } = this.look as CurveLook;
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const shared = { ...(stepped ? { paths: stepped } : {}), points: { show: false } };
    // The highest area first, so that those below are painted upon it.
    const areas = columns.groups.map((group): uPlot.Series => {
      const colour = colourOfGroup(columns.by, group.name, group.is_rest);
      return { ...shared, label: group.name, fill: colour, stroke: colour, width: 0 };
    }).reverse();
    const reserved: uPlot.Series[] = columns.reserved ? [{ ...shared, label: 'reserved', stroke: theme.ink, width: 1.25, dash: [5, 3] }] : [];
    const line = { stroke: theme.line, width: 1 };
    return {
      width,
      height,
      padding: [6, 0, 0, 0],
      legend: { show: false },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      series: [{}, ...areas, ...reserved],
      axes: [
        {
          stroke: theme.quiet, size: 26, gap: 3, font: '11px system-ui, sans-serif', grid: { show: false }, ticks: { ...line, size: 4 },
          splits: (plot) => decimalTicks(plot.scales['x']?.min ?? 0, plot.scales['x']?.max ?? 1, Math.max(2, plot.bbox.width / uPlot.pxRatio / TICK_WIDTH)),
          values: (_, splits) => splits.map((split) => formatPosition(split, axis, (splits[1] ?? split) - (splits[0] ?? 0))),
        },
        {
          stroke: theme.quiet, size: GUTTER, gap: 4, font: '11px system-ui, sans-serif', grid: line, ticks: { ...line, size: 4 },
          splits: (plot) => binaryTicks(0, plot.scales['y']?.max ?? 1, Math.max(2, plot.bbox.height / uPlot.pxRatio / TICK_HEIGHT)),
          values: (_, splits) => splits.map((split) => formatBytes(split)),
        },
      ],
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: { dblclick: () => () => { this.events.onReset(); return null; } },
      },
      hooks: {
        setSelect: [(plot) => this.onSelect(plot)],
        draw: [(plot) => this.drawAbove(plot)],
      },
    };
  }

  private onSelect(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 4) return;
    const range = { from: Math.round(plot.posToVal(left, 'x')), to: Math.round(plot.posToVal(left + width, 'x')) };
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.events.onSelect(range, this.isShifted);
  }

  private drawAbove(plot: uPlot): void {
    const ratio = uPlot.pxRatio;
    const { bbox, ctx: context } = plot;
    context.save();
    context.scale(ratio, ratio);
    this.events.drawAbove({
      context,
      theme: (this.look as CurveLook).theme,
      left: bbox.left / ratio,
      top: bbox.top / ratio,
      width: bbox.width / ratio,
      height: bbox.height / ratio,
      x: (position) => plot.valToPos(position, 'x', true) / ratio,
    });
    context.restore();
  }

  private positionAt(event: MouseEvent): number {
    const bounds = this.plot?.over.getBoundingClientRect();
    if (!bounds) return 0;
    const { from, to } = this.window;
    return from + ((event.clientX - bounds.left) / bounds.width) * (to - from);
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault();
    const amount = event.deltaMode === 1 ? event.deltaY * 33 : event.deltaY;
    const width = this.plot?.over.clientWidth ?? 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.events.onPan((event.deltaX || amount) / width);
    else this.events.onZoom(this.positionAt(event), 1.0015 ** amount);
  }
}

function dataOf(columns: MemoryColumns): uPlot.AlignedData {
  const lines = [...columns.tops].reverse();
  return [columns.edges, ...lines, ...(columns.reserved ? [columns.reserved] : [])] as unknown as uPlot.AlignedData;
}
