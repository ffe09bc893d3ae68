/** Decodes frames: 4 bytes of length, that many bytes of JSON, then an Arrow stream. */
import { tableFromIPC } from '@uwdata/flechette';

export type Numbers = Float64Array | Float32Array | Int32Array | Uint32Array | Uint8Array;

/** The largest of some numbers, at least `least`. */
export function largest(values: Numbers, least: number): number {
  let most = least;
  for (let place = 0; place < values.length; place += 1) most = Math.max(most, values[place]!);
  return most;
}

export interface Frame<Info> {
  info: Info;
  table: FrameTable;
}

export class FrameError extends Error {}

/** The table of a frame, with columns as arrays; made once for each. */
export class FrameTable {
  private readonly columns = new Map<string, unknown>();

  constructor(private readonly arrow: ReturnType<typeof tableFromIPC>) {}

  get rowCount(): number {
    return this.arrow.numRows;
  }

  get names(): string[] {
    return this.arrow.schema.fields.map((field) => field.name);
  }

  has(name: string): boolean {
    return this.names.includes(name);
  }

  numbers(name: string): Numbers {
    const values = this.column(name);
    if (ArrayBuffer.isView(values)) return values as Numbers;
    // With missing values, or with parts: what is missing reads as -1, which the protocol uses for it elsewhere.
    return Float64Array.from(values as ArrayLike<number | null>, (value) => (value === null ? -1 : Number(value)));
  }

  texts(name: string): string[] {
    return this.column(name) as string[];
  }

  flags(name: string): boolean[] {
    return this.column(name) as boolean[];
  }

  /** One cell, for tables whose columns are not known beforehand. */
  cell(name: string, row: number): string | number | boolean | null {
    return (this.column(name) as ArrayLike<string | number | boolean | null>)[row] ?? null;
  }

  private column(name: string): unknown {
    let values = this.columns.get(name);
    if (values === undefined) {
      if (!this.has(name)) throw new FrameError(`no column ${name}`);
      values = this.arrow.getChild(name).toArray();
      this.columns.set(name, values);
    }
    return values;
  }
}

export function decodeFrame<Info>(buffer: ArrayBuffer): Frame<Info> {
  if (buffer.byteLength < 4) throw new FrameError('the answer is too short');
  const length = new DataView(buffer).getUint32(0, true);
  if (4 + length > buffer.byteLength) throw new FrameError('the answer is cut off');
  const info = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as Info;
  // Arrow reads numbers in place, and they must lie on multiples of 8 bytes.
  return { info, table: new FrameTable(tableFromIPC(buffer.slice(4 + length))) };
}
