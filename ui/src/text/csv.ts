/** Rows of values as CSV (RFC 4180). */

export type CsvValue = string | number | boolean | null;

export function csvOf(names: readonly string[], rowCount: number, cell: (name: string, row: number) => CsvValue): string {
  const lines = [names.map(field)];
  for (let row = 0; row < rowCount; row += 1) lines.push(names.map((name) => field(cell(name, row))));
  return lines.map((line) => `${line.join(',')}\r\n`).join('');
}

function field(value: CsvValue): string {
  const text = value === null ? '' : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
