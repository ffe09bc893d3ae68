/** A table that is sorted by a click on a heading, and shows its first rows. */
import { formatBytes, formatCount, formatPercent } from '../text/numbers';
import { shortSite } from '../text/sites';
import type { Cell, Table } from './data';
import { element, linkTo, word } from './page_parts';
import { sortedRows } from './sorting';

const NUMBER_KINDS = new Set(['bytes', 'count', 'percent']);

function cellText(value: Cell, kind: string): string {
  if (value === null) return '';
  if (typeof value === 'string') return kind === 'site' ? shortSite(value) : value;
  if (kind === 'bytes') return formatBytes(value);
  return kind === 'percent' ? formatPercent(value) : formatCount(value);
}

function cell(value: Cell, kind: string, link: string | undefined): HTMLElement {
  const name = NUMBER_KINDS.has(kind) ? 'number' : kind;
  const text = cellText(value, kind);
  return element('td', { class: name, title: kind === 'site' ? value : null }, link !== undefined && kind === 'site' ? linkTo(link, text) : text);
}

function heading(text: string, kind: string): { head: HTMLElement; button: HTMLElement } {
  const button = element('button', { type: 'button', 'aria-label': `${text}: ${word('sort_by', { column: text })}` }, text);
  return { head: element('th', { scope: 'col', class: NUMBER_KINDS.has(kind) ? 'number' : null }, button), button };
}

/** Shows a table, its first rows at first. */
export function tableOf(table: Table, first = 20): HTMLElement {
  const box = element('div', {}, element('h4', {}, table.title));
  const body = element('tbody');
  let order = table.rows.map((_, number) => number);
  let isAll = table.rows.length <= first + 3;
  const fill = (): void => body.replaceChildren(...(isAll ? order : order.slice(0, first)).map(
    (row) => element('tr', {}, ...table.rows[row]!.map((value, column) => cell(value, table.kinds[column]!, table.links[row]))),
  ));
  const heads = table.headings.map((text, column) => heading(text, table.kinds[column]!));
  heads.forEach(({ head, button }, column) => button.addEventListener('click', () => {
    const before = head.getAttribute('aria-sort');
    const isDescending = before === null ? NUMBER_KINDS.has(table.kinds[column]!) : before === 'ascending';
    for (const other of heads) other.head.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
    order = sortedRows(table.rows, column, isDescending);
    fill();
  }));
  const titles = element('thead', {}, element('tr', {}, ...heads.map(({ head }) => head)));
  box.append(element('div', { class: 'sheet-of-table' }, element('table', {}, titles, body)));
  if (!isAll) {
    const more = element('button', { type: 'button' });
    const name = (): void => { more.textContent = isAll ? word('show_fewer') : word('show_all', { n: formatCount(table.rows.length) }); };
    more.addEventListener('click', () => {
      isAll = !isAll;
      name();
      fill();
    });
    name();
    box.append(more);
  }
  if (table.more) box.append(element('p', { class: 'quiet' }, word('more_rows', { n: formatCount(table.more) })));
  if (table.note) box.append(element('p', { class: 'quiet' }, table.note));
  fill();
  return box;
}
