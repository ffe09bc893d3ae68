/** The answer to `api/memory`, made ready to draw. */
import type { Frame, Numbers } from '../protocol/frame';
import type { Group, MemoryInfo } from '../protocol/types';

export interface MemoryColumns {
  from: number;
  to: number;
  count: number;
  /** Where each column begins; one more for the end of the last. */
  edges: Float64Array;
  rows: Numbers;
  positions: Numbers;
  most: Numbers;
  steps: Numbers;
  /** NaN where it is not known. */
  reserved: Float64Array | null;
  groups: Group[];
  bytes: Numbers[];
  /** The top of each group upon those before it; as long as `edges`, the last value repeated. */
  tops: Float64Array[];
  highest: number;
  peak: MemoryInfo['window_peak'];
  by: string;
  python: string;
}

export function memoryColumns({ info, table }: Frame<MemoryInfo>): MemoryColumns {
  const count = table.rowCount;
  const width = (info.to - info.from) / Math.max(count, 1);
  const edges = Float64Array.from({ length: count + 1 }, (_, column) => info.from + column * width);
  const most = table.numbers('most');
  const bytes = info.groups.map((_, group) => table.numbers(`g${group}`));
  // Without groups all of it is one.
  const groups = bytes.length > 0 ? info.groups : [{ name: '', is_rest: false, key: null }];
  const drawn = bytes.length > 0 ? bytes : [most];
  const tops: Float64Array[] = [];
  let below = new Float64Array(count + 1);
  for (const part of drawn) {
    const top = new Float64Array(count + 1);
    for (let column = 0; column < count; column += 1) top[column] = below[column]! + part[column]!;
    top[count] = top[count - 1] ?? 0;
    tops.push(top);
    below = top;
  }
  const reserved = reservedLine(table.numbers('reserved'), count);
  let highest = 1;
  for (let column = 0; column < count; column += 1) highest = Math.max(highest, most[column]!, reserved?.[column] || 0);
  return {
    from: info.from, to: info.to, count, edges, rows: table.numbers('row'), positions: table.numbers('position'), most,
    steps: table.numbers('step'), reserved, groups, bytes: drawn, tops, highest, peak: info.window_peak, by: info.by, python: info.python,
  };
}

function reservedLine(values: Numbers, count: number): Float64Array | null {
  if (!values.some((value) => value >= 0)) return null;
  const line = new Float64Array(count + 1).fill(Number.NaN);
  for (let column = 0; column < count; column += 1) if (values[column]! >= 0) line[column] = values[column]!;
  line[count] = line[count - 1] ?? Number.NaN;
  return line;
}

/** The column that a position lies in. */
export function columnAt(columns: MemoryColumns, position: number): number {
  const column = Math.floor(((position - columns.from) / (columns.to - columns.from || 1)) * columns.count);
  return Math.min(Math.max(column, 0), columns.count - 1);
}
