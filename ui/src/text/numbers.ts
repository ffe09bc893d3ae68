/** Numbers as people read them; the same texts as `units.py` and the HTML report write. */

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** Rounds as Python does: a value in the middle goes to the even neighbour. */
function rounded(number: number, decimals: number): string {
  const scaled = number * 10 ** decimals;
  const below = Math.floor(scaled);
  const whole = scaled - below === 0.5 ? below + (below % 2) : Math.round(scaled);
  return (whole / 10 ** decimals).toFixed(decimals);
}

function threeDigits(number: number): string {
  for (const [decimals, limit] of [[2, 10], [1, 100]] as const) {
    const text = rounded(number, decimals);
    if (Number(text) < limit) return text;
  }
  return rounded(number, 0);
}

export function formatBytes(size: number): string {
  const magnitude = Math.abs(size);
  const sign = size < 0 ? '-' : '';
  if (magnitude < 1024) return `${sign}${magnitude} ${magnitude === 1 ? 'byte' : 'bytes'}`;
  let exponent = 1;
  while (exponent < UNITS.length - 1 && magnitude >= 1024 ** (exponent + 1)) exponent += 1;
  let text = threeDigits(magnitude / 1024 ** exponent);
  if (text === '1024' && exponent < UNITS.length - 1) {
    exponent += 1;
    text = '1.00';
  }
  return `${sign}${text} ${UNITS[exponent]}`;
}

export function formatSignedBytes(size: number): string {
  return size > 0 ? `+${formatBytes(size)}` : formatBytes(size);
}

export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

export function formatPercent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

const TIME_UNITS: readonly (readonly [number, string])[] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

/** A length of time: three digits or more, in the unit that fits. */
export function formatDuration(nanoseconds: number): string {
  const magnitude = Math.abs(nanoseconds);
  const sign = nanoseconds < 0 ? '-' : '';
  if (magnitude >= 120e9) return `${sign}${Math.floor(magnitude / 60e9)} min ${((magnitude / 1e9) % 60).toFixed(1)} s`;
  for (const [factor, unit] of TIME_UNITS) {
    if (magnitude >= factor || unit === 'ns') {
      return `${sign}${unit === 'ns' ? String(Math.round(magnitude)) : threeDigits(magnitude / factor)} ${unit}`;
    }
  }
  return '';
}

/** A time of a table: six digits, so that neighbours are told apart. */
export function formatExactTime(nanoseconds: number): string {
  const magnitude = Math.abs(nanoseconds);
  const [factor, unit] = TIME_UNITS.find(([size]) => magnitude >= size) ?? ([1, 'ns'] as const);
  return unit === 'ns' ? `${Math.round(nanoseconds)} ns` : `${(nanoseconds / factor).toPrecision(6)} ${unit}`;
}

/** Byte-seconds: bytes that were held, times how long. */
export function formatByteSeconds(amount: number): string {
  return `${formatBytes(Math.round(amount))}·s`;
}

/** A moment on the time axis, as exactly as a step between two of them asks for. */
export function formatTime(nanoseconds: number, step: number): string {
  const magnitude = Math.abs(nanoseconds);
  const unitFor = Math.max(magnitude, step);
  const [factor, unit] = TIME_UNITS.find(([size]) => unitFor >= size) ?? ([1, 'ns'] as const);
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(Math.max(step, 1) / factor) - 1e-9)));
  return `${(nanoseconds / factor).toFixed(decimals)} ${unit}`;
}

export type AxisName = 'time' | 'events';

/** A position on an axis; `step` is how close others lie to it. */
export function formatPosition(position: number, axis: AxisName, step: number): string {
  return axis === 'time' ? formatTime(position, step) : formatCount(Math.round(position));
}

export function formatSpan(span: number, axis: AxisName): string {
  return axis === 'time' ? formatDuration(span) : formatCount(Math.round(span));
}

/** A cell of a table by what its column holds; empty for what is not there. */
export function formatCell(value: string | number | boolean | null | undefined, kind: string): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'boolean') return value ? '✓' : '';
  if (typeof value === 'string') return value;
  if (kind === 'bytes') return formatBytes(value);
  if (kind === 'time') return formatExactTime(value);
  if (kind === 'percent') return formatPercent(value);
  if (kind === 'hex') return `0x${value.toString(16)}`;
  if (kind === 'text') return String(value);
  return Number.isInteger(value) ? formatCount(value) : value.toPrecision(6);
}
