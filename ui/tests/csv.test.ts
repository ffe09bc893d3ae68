import { expect, it } from 'vitest';
import { csvOf } from '../src/text/csv';

it('writes names and values, with quotes where a value has a comma, a quote or a line', () => {
  const columns: Record<string, (string | number | null)[]> = { name: ['a, "b"', 'c\nd', null], bytes: [1, -2.5, 3] };
  expect(csvOf(['name', 'bytes'], 3, (name, row) => columns[name]![row]!)).toBe('name,bytes\r\n"a, ""b""",1\r\n"c\nd",-2.5\r\n,3\r\n');
});
