/** What the address of the page holds: each field with its name there, its default, and how it is written. */
import type { AxisName } from '../text/numbers';

export const VIEWS = [
  'map', 'flame', 'owners', 'pool', 'calls', 'difference', 'comparison', 'blocks', 'events', 'findings',
] as const;
export type ViewName = (typeof VIEWS)[number];

export const MEASURES = ['moment', 'peak', 'leaked', 'churn', 'byte_seconds'] as const;
export const COLOURS = ['owner', 'site', 'operator', 'age', 'size', 'thread', 'stream'] as const;
const AXES: readonly AxisName[] = ['time', 'events'];

/** A moment of a pool that is kept for a comparison. */
export interface Pin {
  process: number;
  pool: number;
  row: number;
}

export interface Range {
  from: number;
  to: number;
}

interface Field<Value> {
  name: string;
  initial: Value;
  read: (text: string) => Value;
  write: (value: Value) => string;
}

const INTEGER = /^-?\d{1,16}$/;

function whole(name: string, initial: number): Field<number> {
  return { name, initial, read: (text) => (INTEGER.test(text) ? Number(text) : initial), write: String };
}

function optional(name: string): Field<number | null> {
  return { name, initial: null, read: (text) => (INTEGER.test(text) ? Number(text) : null), write: String };
}

function text(name: string, initial = ''): Field<string> {
  return { name, initial, read: (value) => value, write: (value) => value };
}

function choice<Value extends string>(name: string, values: readonly Value[], initial: Value): Field<Value> {
  return { name, initial, read: (value) => values.find((one) => one === value) ?? initial, write: (value) => value };
}

function flag(name: string): Field<boolean> {
  return { name, initial: false, read: (value) => value === '1', write: (value) => (value ? '1' : '0') };
}

function numbers(text: string, count: number): number[] | null {
  const parts = text.split('~');
  return parts.length === count && parts.every((part) => INTEGER.test(part)) ? parts.map(Number) : null;
}

function range(name: string): Field<Range | null> {
  return {
    name,
    initial: null,
    read: (value) => {
      const [from, to] = numbers(value, 2) ?? [];
      return from !== undefined && to !== undefined && to > from ? { from, to } : null;
    },
    write: (value) => (value === null ? '' : `${value.from}~${value.to}`),
  };
}

function pin(name: string): Field<Pin | null> {
  return {
    name,
    initial: null,
    read: (value) => {
      const [process, pool, row] = numbers(value, 3) ?? [];
      return process === undefined || pool === undefined || row === undefined ? null : { process, pool, row };
    },
    write: (value) => (value === null ? '' : `${value.process}~${value.pool}~${value.row}`),
  };
}

export const FIELDS = {
  view: choice('view', VIEWS, 'map'),
  process: whole('process', 0),
  pool: whole('pool', 0),
  axis: choice('axis', AXES, 'time'),
  by: text('by', 'owner'),
  window: range('window'),
  range: range('range'),
  row: optional('row'),
  block: optional('block'),
  site: text('site'),
  search: text('search'),
  pinA: pin('a'),
  pinB: pin('b'),
  mapLayout: choice('map.layout', ['auto', 'address', 'stacked'], 'auto'),
  mapColour: choice('map.colour', COLOURS, 'owner'),
  mapHeight: range('map.height'),
  measure: choice('flame.measure', MEASURES, 'moment'),
  flameBy: choice('flame.by', ['stack', 'owner'], 'stack'),
  frames: choice('flame.frames', ['program', 'all'], 'program'),
  isUpward: flag('flame.upward'),
  node: optional('flame.node'),
  ownerNode: optional('owners.node'),
  differenceBy: text('difference.by', 'owner'),
  otherProcess: whole('other.process', 1),
  otherPool: whole('other.pool', 0),
  otherWindow: range('other.window'),
  otherRow: optional('other.row'),
  isLinked: flag('other.linked'),
  blocksSort: text('blocks.sort'),
  blocksFilter: text('blocks.filter'),
  blocksInWindow: flag('blocks.window'),
  eventsSort: text('events.sort'),
  eventsFilter: text('events.filter'),
  eventsInWindow: flag('events.window'),
  finding: text('finding'),
} as const;

export type State = { [Key in keyof typeof FIELDS]: (typeof FIELDS)[Key]['initial'] extends infer Initial
  ? (typeof FIELDS)[Key] extends Field<infer Value> ? Value : Initial
  : never };

type AnyField = Field<State[keyof State]>;

/** The fields with their types let go of: reading and writing go through each field's own functions. */
const ENTRIES = Object.entries(FIELDS) as unknown as [keyof State, AnyField][];

/** Reads the part of an address behind `#`; what is not understood is as if it were not there. */
export function readState(hash: string): State {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const state: Partial<Record<keyof State, unknown>> = {};
  for (const [key, field] of ENTRIES) {
    const value = parameters.get(field.name);
    state[key] = value === null ? field.initial : field.read(value);
  }
  return state as State;
}

/** What groups by call site all that would group by owner, but for what an address chooses: where no owner is known. */
export function groupedBySite(hash: string): Partial<State> {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const is = (field: { name: string }): boolean => !parameters.has(field.name);
  return {
    ...(is(FIELDS.by) && { by: 'site' }), ...(is(FIELDS.mapColour) && { mapColour: 'site' as const }),
    ...(is(FIELDS.differenceBy) && { differenceBy: 'site' }),
  };
}

/** Writes what differs from the defaults. */
export function writeState(state: State): string {
  const parameters = new URLSearchParams();
  for (const [key, field] of ENTRIES) {
    const value = field.write(state[key]);
    if (state[key] !== field.initial && value !== field.write(field.initial)) parameters.set(field.name, value);
  }
  return parameters.toString().replaceAll('%7E', '~');
}
