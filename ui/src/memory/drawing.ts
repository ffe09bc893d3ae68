/** The curve as an SVG file: areas from what the server answered, no picture of the screen. */
import { THEMES } from '../colour/palette';
import { colourOfGroup } from '../colour/series';
import { formatBytes, formatPosition, type AxisName } from '../text/numbers';
import { binaryTicks, decimalTicks } from '../text/ticks';
import type { MemoryColumns } from './columns';

const WIDTH = 1200;
const HEIGHT = 360;
const LEFT = 90;
const BOTTOM = 40;
const TOP = 10;

export function escapeXml(text: string): string {
  // Control characters cannot be in XML, not even escaped.
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '\ufffd')
    .replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

export function memoryDrawing(columns: MemoryColumns, axis: AxisName): string {
  const { ink, quiet, line, ground } = THEMES.light;
  const width = WIDTH - LEFT - 10;
  const height = HEIGHT - TOP - BOTTOM;
  const x = (position: number): string => (LEFT + ((position - columns.from) / (columns.to - columns.from || 1)) * width).toFixed(2);
  const y = (bytes: number): string => (TOP + height - (bytes / (columns.highest * 1.06)) * height).toFixed(2);
  const outline = (values: ArrayLike<number>, isArea: boolean): string => {
    const parts: string[] = [];
    for (let column = 0; column < columns.count; column += 1) {
      if (Number.isNaN(values[column]!)) continue;
      parts.push(`${parts.length === 0 ? `M${x(columns.edges[column]!)} ${y(values[column]!)}` : `V${y(values[column]!)}`}H${x(columns.edges[column + 1]!)}`);
    }
    return isArea ? `${parts.join('')}V${y(0)}H${x(columns.from)}Z` : parts.join('');
  };
  const rows: string[] = [];
  for (const bytes of binaryTicks(0, columns.highest, 8)) {
    rows.push(`<path d="M${LEFT} ${y(bytes)}h${width}" stroke="${line}"/><text x="${LEFT - 6}" y="${y(bytes)}" text-anchor="end" dy="4">${formatBytes(bytes)}</text>`);
  }
  const ticks = decimalTicks(columns.from, columns.to, 8);
  for (const position of ticks) {
    rows.push(`<text x="${x(position)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${formatPosition(position, axis, (ticks[1] ?? 1) - (ticks[0] ?? 0))}</text>`);
  }
  columns.groups.map((group, number) => ({ group, top: columns.tops[number]! })).reverse().forEach(({ group, top }) => {
    rows.push(`<path d="${outline(top, true)}" fill="${colourOfGroup(columns.by, group.name, group.is_rest)}"><title>${escapeXml(group.name)}</title></path>`);
  });
  if (columns.reserved) rows.push(`<path d="${outline(columns.reserved, false)}" fill="none" stroke="${ink}" stroke-dasharray="5 3"/>`);
  let left = LEFT;
  for (const group of columns.groups) {
    const name = group.name.length > 24 ? `${group.name.slice(0, 23)}…` : group.name;
    rows.push(`<rect x="${left}" y="${HEIGHT - 14}" width="9" height="9" fill="${colourOfGroup(columns.by, group.name, group.is_rest)}"/><text x="${left + 12}" y="${HEIGHT - 6}">${escapeXml(name)}</text>`);
    left += 24 + name.length * 6.5;
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="11" fill="${quiet}">`
    + `<rect width="${WIDTH}" height="${HEIGHT}" fill="${ground}"/>${rows.join('')}</svg>\n`;
}
