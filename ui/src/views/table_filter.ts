/** Filters of tables as people type them, and as the server takes them. */
import type { TableColumn } from '../protocol/types';

const FACTORS: Record<string, number> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };
const TIMES: Record<string, number> = { '': 1, ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, min: 60e9 };

export interface Bounds {
  least?: number;
  most?: number;
}

function parseNumber(text: string, kind: string): number | null {
  const hex = /^0x[0-9a-f]+$/i.exec(text);
  if (hex) return Number(text);
  const match = /^(-?[\d.,_]+)\s*([a-zµ]*)$/i.exec(text);
  if (!match) return null;
  const number = Number(match[1]!.replace(/[,_]/g, ''));
  const unit = match[2]!.toLowerCase();
  const factor = kind === 'bytes' ? FACTORS[unit.replace(/i?b(ytes?)?$/, '')] : kind === 'time' ? TIMES[unit] : unit === '' ? 1 : undefined;
  return Number.isFinite(number) && factor !== undefined ? Math.round(number * factor) : null;
}

/** `>= 1M`, `< 2G`, `1M-2G`, or a number alone; null for what is none of them. */
export function parseBounds(text: string, kind: string): Bounds | null {
  const trimmed = text.trim();
  const between = /^(.+?)\s*(?:-|–|\.\.|~)\s*(.+)$/.exec(trimmed.replace(/^-/, 'm'));
  const compared = /^(>=?|≥|<=?|≤|=)\s*(.+)$/.exec(trimmed);
  if (compared) {
    const number = parseNumber(compared[2]!, kind);
    if (number === null) return null;
    switch (compared[1]) {
      case '>': return { least: number + 1 };
      case '>=': case '≥': return { least: number };
      case '<': return { most: number - 1 };
      case '<=': case '≤': return { most: number };
      default: return { least: number, most: number };
    }
  }
  if (between && !trimmed.startsWith('-')) {
    const least = parseNumber(between[1]!, kind);
    const most = parseNumber(between[2]!, kind);
    return least === null || most === null ? null : { least, most };
  }
  const number = parseNumber(trimmed, kind);
  return number === null ? null : { least: number, most: number };
}

/** What was typed for each column, as the address keeps it. */
export function readTyped(text: string): Record<string, string> {
  try {
    const value: unknown = JSON.parse(text || '{}');
    if (typeof value !== 'object' || value === null) return {};
    return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
  } catch {
    return {};
  }
}

export function writeTyped(typed: Record<string, string>): string {
  const kept = Object.fromEntries(Object.entries(typed).filter(([, value]) => value.trim() !== ''));
  return Object.keys(kept).length > 0 ? JSON.stringify(kept) : '';
}

/** Whether what was typed is understood; an empty field is. */
export function isUnderstood(column: TableColumn, typed: string): boolean {
  return typed.trim() === '' || column.filter !== 'range' || parseBounds(typed, column.kind) !== null;
}

/** The filter as the server takes it; what is not understood is left out, and shown as wrong beside its field. */
export function filterParameter(columns: readonly TableColumn[], typed: Record<string, string>): string {
  const filter: Record<string, unknown> = {};
  for (const column of columns) {
    const text = typed[column.column]?.trim() ?? '';
    if (text === '') continue;
    if (column.filter === 'range') {
      const bounds = parseBounds(text, column.kind);
      if (bounds) filter[column.column] = bounds;
    } else if (column.filter === 'choice') filter[column.column] = { any: [text] };
    else if (column.filter === 'text') filter[column.column] = { text };
  }
  return Object.keys(filter).length > 0 ? JSON.stringify(filter) : '';
}
