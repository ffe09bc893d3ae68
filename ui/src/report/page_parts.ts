/** What every part of the page is made with: elements, words, and what is to be done when the page changes its size or is printed.
    Every text that comes from data is put in as text: nothing here parses markup, sets inline handlers or follows an address. */
import type { Report } from './data';

const SVG = 'http://www.w3.org/2000/svg';

type Attributes = Record<string, string | number | null | undefined>;

function withAttributes<Made extends Element>(made: Made, attributes: Attributes, children: readonly (Node | string | null)[]): Made {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** Makes an element; children that are strings become text. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name, attributes: Attributes = {}, ...children: (Node | string | null)[]
): HTMLElementTagNameMap[Name] {
  return withAttributes(document.createElement(name), attributes, children);
}

export function shape<Name extends keyof SVGElementTagNameMap>(
  name: Name, attributes: Attributes = {}, ...children: (Node | string | null)[]
): SVGElementTagNameMap[Name] {
  return withAttributes(document.createElementNS(SVG, name), attributes, children);
}

/** The report that is shown. */
export const report = JSON.parse(document.getElementById('report-data')?.textContent ?? '{}') as Report;

export function word(key: string, values: Record<string, string | number> = {}): string {
  return report.words[key]!.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name]));
}

export function linkTo(target: string, text: string, name: string | null = null): HTMLElement {
  return element('a', { href: `#${target}`, class: name }, text);
}

/** Shows the target of the address, also where it is folded away. */
export function showTarget(): void {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let box = target?.closest('details'); box; box = box.parentElement?.closest('details')) box.open = true;
  target?.scrollIntoView();
}

const drawings: (() => void)[] = [];

/** Does something now that the part is on the page, and again whenever the window has another size. */
export function drawWithSize(draw: () => void): void {
  drawings.push(draw);
}

export function drawAll(): void {
  for (const draw of drawings) draw();
}

/** What unfolds; on paper it is open. */
export function folded(title: string, content: Node | null, attributes: Attributes = {}): HTMLDetailsElement {
  const made = element('details', attributes, element('summary', {}, title), content);
  window.addEventListener('beforeprint', () => { made.open = true; });
  return made;
}
