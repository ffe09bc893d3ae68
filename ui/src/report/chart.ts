/** Memory over time: areas of owners upon each other, what is reserved, steps, marks and failures; a cursor says the rest. */
import { formatBytes, formatCount, formatPercent, formatSpan } from '../text/numbers';
import { binaryTicks, decimalTicks } from '../text/ticks';
import type { ChartData, Pool } from './data';
import type { ColourOf } from './memory';
import { areaPath, stepPath } from './outlines';
import { drawWithSize, element, shape, word } from './page_parts';

const HEIGHT = 320;
const LEFT = 74;
const TOP = 26;
const RIGHT = 16;
const BOTTOM = 44;
const NANOSECONDS = 1e9;

export function chartOf(pool: Pool, colourOf: ColourOf): HTMLElement {
  const chart = new Chart(pool, colourOf);
  drawWithSize(() => chart.draw());
  const { marks, failures } = pool.chart;
  const notes = [
    word('chart_help'),
    marks.more ? word('more_marks', { n: formatCount(marks.more) }) : '',
    failures.more ? word('more_failures', { n: formatCount(failures.more) }) : '',
  ];
  return element('div', {}, chart.box, chart.readout, chart.legend, element('p', { class: 'quiet help' }, notes.filter(Boolean).join(' ')));
}

class Chart {
  readonly box = element('div', { class: 'picture' });
  readonly readout = element('p', { class: 'readout', 'aria-live': 'polite' });
  readonly legend = element('ul', { class: 'legend' });
  private readonly data: ChartData;
  private readonly name: string;
  /** Where the values of owners are shown. */
  private readonly values: HTMLElement[];
  private readonly reservedValue: HTMLElement | null;
  private column: number;
  private width = 0;
  private top = 1;
  private picture = shape('svg');
  private cursor = shape('line');

  constructor(pool: Pool, private readonly colourOf: ColourOf) {
    this.data = pool.chart;
    this.name = `${pool.device} ${pool.pool}`;
    this.column = this.data.peak.column;
    this.values = this.data.owners.map((owner) => this.line(owner.name, this.colourOf(owner.name)));
    this.reservedValue = this.data.reserved ? this.line(word('reserved'), null) : null;
  }

  /** Adds a line to the legend and returns where its value is shown. */
  private line(text: string, colour: string | null): HTMLElement {
    const value = element('span');
    const swatch = element('span', { class: colour === null ? 'swatch broken' : 'swatch' });
    if (colour !== null) swatch.style.background = colour;
    this.legend.append(element('li', {}, swatch, element('span', { class: 'name', title: text }, text), value));
    return value;
  }

  private get columnWidth(): number {
    return this.width / this.data.most.length;
  }

  private get bottom(): number {
    return HEIGHT - BOTTOM;
  }

  private readonly heightOf = (bytes: number): number => TOP + (this.bottom - TOP) * (1 - bytes / this.top);

  private x(moment: number): number {
    return LEFT + (this.data.length > 0 ? (this.width * moment) / this.data.length : 0);
  }

  draw(): void {
    const { data } = this;
    const whole = Math.max(this.box.clientWidth || 1000, 320);
    this.width = whole - LEFT - RIGHT;
    this.top = Math.max(data.peak.bytes, ...(data.reserved ?? []), 1);
    const hadFocus = document.activeElement === this.picture;
    this.cursor = shape('line', { class: 'cursor', y1: TOP, y2: this.bottom });
    this.picture = shape('svg', {
      viewBox: `0 0 ${whole} ${HEIGHT}`, role: 'slider', tabindex: 0, 'aria-label': `${word('memory_over_time')}: ${this.name}`,
      'aria-valuemin': 0, 'aria-valuemax': data.most.length - 1, 'aria-valuenow': this.column,
    }, ...this.axes(), ...this.areas(), ...this.events(), ...this.peak(), this.cursor);
    this.picture.addEventListener('pointermove', (event) => this.point(event));
    this.picture.addEventListener('keydown', (event) => this.key(event));
    this.box.replaceChildren(this.picture);
    if (hadFocus) this.picture.focus();
    this.move(this.column);
  }

  private axes(): SVGElement[] {
    const { bottom, width } = this;
    const made: SVGElement[] = [];
    for (const tick of binaryTicks(0, this.top, 6)) {
      const y = this.heightOf(tick);
      made.push(shape('line', { class: 'grid', x1: LEFT, x2: LEFT + width, y1: y, y2: y }),
        shape('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, formatBytes(tick)));
    }
    for (const tick of decimalTicks(0, this.data.length, Math.max(Math.floor(width / 110), 2))) {
      const x = this.x(tick);
      const text = this.data.is_time ? `${Number((tick / NANOSECONDS).toPrecision(6))} s` : formatCount(tick);
      made.push(shape('line', { class: 'grid', x1: x, x2: x, y1: bottom, y2: bottom + 5 }),
        shape('text', { x, y: bottom + 18, 'text-anchor': 'middle' }, text));
    }
    return made;
  }

  private areas(): SVGElement[] {
    const { data, columnWidth, heightOf } = this;
    const made: SVGElement[] = [];
    let below = data.most.map(() => 0);
    for (const owner of data.owners) {
      const above = below.map((value, column) => value + owner.bytes[column]!);
      made.push(shape('path', { fill: this.colourOf(owner.name), d: areaPath(below, above, LEFT, columnWidth, heightOf) }));
      below = above;
    }
    const line = (values: number[], name: string): SVGElement => shape('path', { class: name, d: stepPath(values, LEFT, columnWidth, heightOf) });
    return [...made, line(data.least, 'least'), line(data.most, 'outline'), ...(data.reserved ? [line(data.reserved, 'reserved')] : [])];
  }

  /** Begins of steps as far as there is room, marks, and failed allocations. */
  private events(): SVGElement[] {
    const { steps, marks, failures } = this.data;
    const { bottom } = this;
    const lines = shape('g', { class: 'steps' });
    let freeLine = -Infinity;
    let freeText = -Infinity;
    steps.moments.forEach((moment, number) => {
      const x = this.x(moment);
      if (x >= freeLine) {
        lines.append(shape('line', { x1: x, x2: x, y1: TOP, y2: bottom }));
        freeLine = x + 9;
      }
      if (x < freeText || x > LEFT + this.width - 50) return;
      lines.append(shape('text', { x: x + 2, y: bottom + 34 }, `${word('step')} ${steps.numbers[number]}`));
      freeText = x + 70;
    });
    const flags = marks.moments.map((moment, number) => shape('path', { class: 'mark', d: `M${this.x(moment)} ${TOP}l-4 -7h8z` },
      shape('title', {}, `${word('mark')}: ${marks.names[number]}`)));
    const crosses = failures.moments.map((moment, number) => {
      const x = this.x(moment);
      return shape('path', { class: 'failure', d: `M${x} ${TOP}V${bottom}M${x - 5} ${TOP}l10 10m0 -10l-10 10` },
        shape('title', {}, `${word('failed')}: ${formatBytes(failures.bytes[number]!)}`));
    });
    return [lines, ...flags, ...crosses];
  }

  private peak(): SVGElement[] {
    const { peak } = this.data;
    const x = LEFT + (peak.column + 0.5) * this.columnWidth;
    const y = this.heightOf(peak.bytes);
    const isRight = x > LEFT + this.width / 2;
    return [shape('circle', { class: 'peak-dot', cx: x, cy: y, r: 4.5 }),
      shape('text', { class: 'peak', x: isRight ? x - 8 : x + 8, y: y - 8, 'text-anchor': isRight ? 'end' : 'start' },
        `${word('peak')} ${formatBytes(peak.bytes)}`)];
  }

  private point(event: PointerEvent): void {
    const bounds = this.picture.getBoundingClientRect();
    const x = (event.clientX - bounds.left) * (this.picture.viewBox.baseVal.width / bounds.width);
    this.move(Math.floor((x - LEFT) / this.columnWidth));
  }

  private key(event: KeyboardEvent): void {
    const last = this.data.most.length - 1;
    const stride = event.shiftKey ? Math.max(Math.round(last / 50), 1) : 1;
    const far = Math.ceil(last / 10);
    const place = new Map([
      ['ArrowLeft', this.column - stride], ['ArrowDown', this.column - stride], ['ArrowRight', this.column + stride], ['ArrowUp', this.column + stride],
      ['PageDown', this.column - far], ['PageUp', this.column + far], ['Home', 0], ['End', last], ['p', this.data.peak.column],
    ]).get(event.key);
    if (place === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.move(place);
  }

  /** Puts the cursor on a column, and says what was in use then. */
  private move(column: number): void {
    const { data } = this;
    const place = Math.min(Math.max(column, 0), data.most.length - 1);
    this.column = place;
    const x = LEFT + (place + 0.5) * this.columnWidth;
    this.cursor.setAttribute('x1', String(x));
    this.cursor.setAttribute('x2', String(x));
    const most = data.most[place]!;
    const reserved = data.reserved?.[place] ?? -1;
    const text = [
      `${word(data.is_time ? 'time' : 'event')} ${formatSpan(data.moments[place]!, data.is_time ? 'time' : 'events')}`,
      data.step ? `${word('step')} ${formatCount(data.step[place]!)}` : '',
      `${word('in_use')} ${formatBytes(most)} (${formatCount(most)})`,
      `${word('least')} ${formatBytes(data.least[place]!)}`,
      reserved >= 0 ? `${word('reserved')} ${formatBytes(reserved)}` : '',
    ].filter(Boolean).join(' · ');
    this.readout.textContent = text;
    if (this.reservedValue) this.reservedValue.textContent = reserved >= 0 ? formatBytes(reserved) : '';
    this.picture.setAttribute('aria-valuenow', String(place));
    this.picture.setAttribute('aria-valuetext', text);
    this.values.forEach((value, number) => {
      const bytes = data.owners[number]!.bytes[place]!;
      value.textContent = `${formatBytes(bytes)}${most > 0 ? ` · ${formatPercent(bytes / most)}` : ''}`;
    });
  }
}
