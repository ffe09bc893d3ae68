import { tableFromArrays, tableToIPC, int64, uint32, float64 } from '@uwdata/flechette';
import { describe, expect, it } from 'vitest';
import { decodeFrame, FrameError } from '../src/protocol/frame';

function frame(info: unknown, columns: Record<string, unknown[]>, types = {}): ArrayBuffer {
  const text = new TextEncoder().encode(JSON.stringify(info));
  const arrow = tableToIPC(tableFromArrays(columns as never, { types } as never), { format: 'stream' }) as Uint8Array;
  const bytes = new Uint8Array(4 + text.length + arrow.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 4);
  bytes.set(arrow, 4 + text.length);
  return bytes.buffer;
}

describe('decodeFrame', () => {
  it('gives numbers as arrays of numbers, 64-bit ones too', () => {
    const { info, table } = decodeFrame<{ to: number }>(
      frame({ to: 5 }, { size: [1, 2 ** 52], depth: [3, 4] }, { size: int64(), depth: uint32() }),
    );
    expect(info).toEqual({ to: 5 });
    expect(table.rowCount).toBe(2);
    expect([...table.numbers('size')]).toEqual([1, 2 ** 52]);
    expect([...table.numbers('depth')]).toEqual([3, 4]);
  });

  it('gives texts, dictionaries and flags', () => {
    const { table } = decodeFrame(frame({}, { name: ['一', '<b>', '一'], leaked: [true, false, true] }));
    expect(table.texts('name')).toEqual(['一', '<b>', '一']);
    expect(Array.from(table.flags('leaked'))).toEqual([true, false, true]);
    expect(table.cell('name', 1)).toBe('<b>');
  });

  it('reads missing numbers as -1 where numbers are asked for, and as null in a cell', () => {
    const { table } = decodeFrame(frame({}, { value: [1.5, null] }, { value: float64() }));
    expect([...table.numbers('value')]).toEqual([1.5, -1]);
    expect(table.cell('value', 1)).toBeNull();
  });

  it('takes info of any length, though numbers must lie on multiples of 8', () => {
    for (let length = 0; length < 9; length += 1) {
      const { table } = decodeFrame(frame({ text: 'x'.repeat(length) }, { size: [7] }, { size: int64() }));
      expect([...table.numbers('size')]).toEqual([7]);
    }
  });

  it('refuses what is cut off, and columns that are not there', () => {
    expect(() => decodeFrame(new ArrayBuffer(2))).toThrow(FrameError);
    expect(() => decodeFrame(frame({ a: 1 }, { size: [1] }).slice(0, 9))).toThrow(FrameError);
    expect(() => decodeFrame(frame({}, { size: [1] })).table.numbers('bytes')).toThrow(FrameError);
  });
});
