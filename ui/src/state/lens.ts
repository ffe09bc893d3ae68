/** What a chart looks at: a pool of a process, and a window of its axis. There are two, this capture and the other one of a comparison. */
import { computed, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { jsonAnswer, type Answer } from '../protocol/answer';
import type { Parameters } from '../protocol/ask';
import type { Moment, Pool, Process, Session } from '../protocol/types';
import type { AxisName } from '../text/numbers';
import type { Range } from './fields';
import { change, store } from './store';

export const session = signal<Session | null>(null);

export class Lens {
  readonly process: ReadonlySignal<Process | null>;
  readonly pool: ReadonlySignal<Pool | null>;
  readonly axis: ReadonlySignal<AxisName>;
  readonly length: ReadonlySignal<number>;
  readonly window: ReadonlySignal<Range>;
  /** The moment that is looked at: the chosen one, or the peak. */
  readonly row: ReadonlySignal<number | null>;
  readonly moment: Answer<Moment>;

  constructor(
    readonly processNumber: Signal<number>,
    readonly poolNumber: Signal<number>,
    readonly chosenWindow: Signal<Range | null>,
    readonly chosenRow: Signal<number | null>,
  ) {
    this.process = computed(() => {
      const processes = session.value?.processes ?? [];
      return processes.find((one) => one.process === processNumber.value) ?? processes[0] ?? null;
    });
    this.pool = computed(() => {
      const pools = this.process.value?.pools ?? [];
      return pools.find((one) => one.pool === poolNumber.value) ?? pools[0] ?? null;
    });
    this.axis = computed(() => (this.process.value?.axis.has_times === false ? 'events' : store.axis.value));
    this.length = computed(() => Math.max(this.process.value?.axis.length[this.axis.value] ?? 1, 1));
    this.window = computed(() => within(chosenWindow.value ?? { from: 0, to: this.length.value }, this.length.value));
    this.row = computed(() => chosenRow.value ?? this.pool.value?.peak.row ?? null);
    this.moment = jsonAnswer<Moment>(() => {
      const common = this.common();
      return common && this.row.value !== null
        ? { path: 'at', parameters: { ...common, row: this.row.value } }
        : null;
    });
  }

  /** The parameters that most questions share; null before the session is known. */
  common(): Parameters | null {
    const process = this.process.value;
    if (!process) return null;
    return { process: process.process, pool: this.pool.value?.pool, axis: this.axis.value };
  }

  /** Also the window. */
  commonWindow(): Parameters | null {
    const common = this.common();
    return common && { ...common, from: this.window.value.from, to: this.window.value.to };
  }

  get isWhole(): boolean {
    const { from, to } = this.window.value;
    return from <= 0 && to >= this.length.value;
  }
}

/** A window moved and cut so that it lies on the axis, in whole positions. */
export function within({ from, to }: Range, length: number): Range {
  const span = Math.min(Math.max(Math.round(to - from), 2), Math.max(length, 2));
  const begin = Math.min(Math.max(Math.round(from), 0), Math.max(length, 2) - span);
  return { from: begin, to: begin + span };
}

export const mainLens = new Lens(store.process, store.pool, store.window, store.row);
export const otherLens = new Lens(store.otherProcess, store.otherPool, store.otherWindow, store.otherRow);

/** Shows a window; charts that are linked follow. */
export function showWindow(lens: Lens, wanted: Range): void {
  const range = within(wanted, lens.length.value);
  const isAll = range.from <= 0 && range.to >= lens.length.value;
  lens.chosenWindow.value = isAll ? null : range;
  if (!store.isLinked.value || store.view.value !== 'comparison') return;
  const linked = lens === mainLens ? otherLens : mainLens;
  linked.chosenWindow.value = isAll ? null : within(range, linked.length.value);
}

export function showAll(lens: Lens): void {
  showWindow(lens, { from: 0, to: lens.length.value });
}

/** Makes the window `factor` times as long, with a position staying where it is. */
export function zoomWindow(lens: Lens, position: number, factor: number): void {
  const { from, to } = lens.window.value;
  const span = Math.min((to - from) * factor, lens.length.value);
  const share = (position - from) / (to - from);
  showWindow(lens, { from: position - share * span, to: position + (1 - share) * span });
}

/** Moves the window by a share of its length. */
export function panWindow(lens: Lens, share: number): void {
  const { from, to } = lens.window.value;
  showWindow(lens, { from: from + share * (to - from), to: to + share * (to - from) });
}

export function zoomMiddle(lens: Lens, factor: number): void {
  const { from, to } = lens.window.value;
  zoomWindow(lens, (from + to) / 2, factor);
}

/** Another process: rows and positions of the former one mean nothing there. */
export function chooseProcess(process: number): void {
  change({ process, pool: 0, window: null, range: null, row: null, block: null, node: null, ownerNode: null, mapHeight: null });
}

export function choosePool(pool: number): void {
  change({ pool, row: null, node: null, ownerNode: null, mapHeight: null });
}

