/** The flame graph as an SVG file. */
import { labelOn } from '../colour/palette';
import type { FlamePlace } from '../layout/flame';
import { escapeXml } from '../memory/drawing';
import { formatPercent } from '../text/numbers';
import { shortFrame } from '../text/sites';
import { colourOfNode, formatAmount, type TreeData } from './flame_data';

const WIDTH = 1400;
const ROW = 18;
const LETTER = 6.3;

export function flameDrawing(tree: TreeData, places: readonly FlamePlace[]): string {
  const depth = 1 + places.reduce((most, place) => Math.max(most, place.depth), 0);
  const rows = places.filter((place) => place.width * WIDTH >= 0.3).map((place) => {
    const colour = colourOfNode(tree, place.node);
    const left = (place.left * WIDTH).toFixed(2);
    const width = place.width * WIDTH;
    const top = place.depth * ROW;
    const name = shortFrame(tree.names[place.node]!);
    const room = Math.floor((width - 6) / LETTER);
    const label = room < 3 ? '' : `<text x="${Number(left) + 3}" y="${top + 13}" fill="${labelOn(colour)}">${escapeXml(name.length > room ? `${name.slice(0, room - 1)}…` : name)}</text>`;
    const share = formatPercent(tree.info.total > 0 ? tree.bytes[place.node]! / tree.info.total : 0);
    const title = `${tree.names[place.node]}: ${formatAmount(tree.bytes[place.node]!, tree.info.unit)} (${share})`;
    return `<g><title>${escapeXml(title)}</title><rect x="${left}" y="${top}" width="${Math.max(width - 0.5, 0.3).toFixed(2)}" height="${ROW - 1}" fill="${colour}"/>${label}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${depth * ROW}" font-family="system-ui, sans-serif" font-size="11">${rows.join('')}</svg>\n`;
}
