/** The memory of one pool: over time, its owners at the peak, and its call stacks. */
import { colourOfGroup, rankGroups } from '../colour/series';
import { labelOn } from '../colour/palette';
import { treemapLayout } from '../layout/treemap';
import { formatBytes, formatCount, formatPercent } from '../text/numbers';
import { chartOf } from './chart';
import type { Pool } from './data';
import { Icicle } from './icicle';
import { drawWithSize, element, word } from './page_parts';
import { tableOf } from './table';

/** Says the colour of an owner; those that are not drawn over time are of the rest. */
export type ColourOf = (name: string) => string;

const FIRST_ROWS = 10;
const LEAST_WIDTH = 50;
const LEAST_HEIGHT = 24;

export function memoryOf(pool: Pool): HTMLElement {
  const named = pool.chart.owners.filter((owner) => !owner.is_rest).map((owner) => owner.name);
  rankGroups(pool.id, named);
  const colourOf = (name: string): string => colourOfGroup(pool.id, name, !named.includes(name));
  return element('section', { id: pool.id }, element('h3', {}, `${pool.device} ${pool.pool}`),
    chartOf(pool, colourOf),
    element('h4', {}, wordOfGroups(pool)), ownersAtPeak(pool, colourOf),
    element('h4', {}, word('by_stack')), trees(pool),
    ...pool.tables.map((table) => tableOf(table, FIRST_ROWS)));
}

export function blocksText(count: number): string {
  return count === 1 ? word('block') : word('blocks', { n: formatCount(count) });
}

function wordOfGroups(pool: Pool): string {
  return pool.grouped_by === 'line' ? word('lines_at_peak') : word('owners_at_peak');
}

function ownersAtPeak(pool: Pool, colourOf: ColourOf): HTMLElement {
  const box = element('div', {
    class: pool.owners.length > 2 ? 'treemap' : 'treemap low', role: 'img', 'aria-label': wordOfGroups(pool),
  });
  const whole = pool.chart.peak.bytes;
  const list = (first: number, part: 1 | 2): Float64Array => Float64Array.from([first, ...pool.owners.map((owner) => owner[part])]);
  const tree = {
    names: ['', ...pool.owners.map(([name]) => name)], parents: new Float64Array(pool.owners.length + 1), bytes: list(whole, 1), blocks: list(0, 2),
    depths: new Float64Array(), keys: new Float64Array(),
  };
  drawWithSize(() => {
    const { clientWidth: width, clientHeight: height } = box;
    box.replaceChildren(...treemapLayout(tree, 0, width, height).map((place) => {
      const [name, size, blocks] = pool.owners[place.node - 1]!;
      const share = formatPercent(size / whole);
      const field = element('div', { title: `${name}: ${formatBytes(size)}, ${share}, ${blocksText(blocks)}` });
      if (place.width > LEAST_WIDTH && place.height > LEAST_HEIGHT) field.append(name, element('br'), `${formatBytes(size)} · ${share}`);
      const colour = colourOf(name);
      // Shares of the box, so that it can be printed in another size.
      Object.assign(field.style, {
        background: colour, color: labelOn(colour), left: `${(100 * place.left) / width}%`, top: `${(100 * place.top) / height}%`,
        width: `${(100 * place.width) / width}%`, height: `${(100 * place.height) / height}%`,
      });
      return field;
    }));
  });
  return box;
}

function trees(pool: Pool): HTMLElement {
  const readout = element('p', { class: 'readout', 'aria-live': 'polite' });
  const sheet = element('div', { class: 'icicle' });
  const kinds = Object.keys(pool.trees);
  const view = new Icicle(sheet, readout);
  const buttons = kinds.map((kind) => {
    const button = element('button', { type: 'button' }, word(`tree_${kind}`));
    button.addEventListener('click', () => choose(kind));
    return button;
  });
  const choose = (kind: string): void => {
    buttons.forEach((button, number) => button.setAttribute('aria-pressed', String(kinds[number] === kind)));
    view.show(pool.trees[kind]!);
  };
  const all = element('button', { type: 'button' }, word('zoom_out'));
  all.addEventListener('click', () => view.zoom(0));
  choose(kinds[0]!);
  return element('div', {},
    element('div', { class: 'tools' }, ...(kinds.length > 1 ? buttons : []), all, element('span', { class: 'quiet help' }, word('tree_help'))),
    sheet, readout);
}
