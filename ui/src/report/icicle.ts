/** Blocks by call stack: the whole on top, below each frame what it called. Only one node can be reached by Tab; arrow keys
    walk from there, as a stack has more nodes than anybody wants to pass. */
import { labelOn } from '../colour/palette';
import { colourOfName } from '../colour/series';
import { Children, flameLayout, neighbour, type FlamePlace, type Tree } from '../layout/flame';
import { formatBytes, formatPercent } from '../text/numbers';
import { shortFrame } from '../text/sites';
import type { TreeContent } from './data';
import { blocksText } from './memory';
import { element, word } from './page_parts';

const ROW_HEIGHT = 22;
const LEAST_SHARE = 0.0015;
const LEAST_LABELLED = 0.02;
const DIRECTIONS = { ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right' } as const;

function treeOf(content: TreeContent): Tree {
  return {
    names: content.names.map((label) => content.labels[label]!), parents: Float64Array.from(content.parents),
    bytes: Float64Array.from(content.size_bytes), blocks: Float64Array.from(content.blocks), depths: new Float64Array(), keys: new Float64Array(),
  };
}

export class Icicle {
  private tree: Tree = treeOf({ labels: [''], names: [0], parents: [0], size_bytes: [0], blocks: [0] });
  private children = new Children(this.tree.parents);
  private zoomed = 0;
  private buttons = new Map<number, HTMLElement>();

  constructor(private readonly box: HTMLElement, private readonly readout: HTMLElement) {
    const tell = (event: Event): void => this.tell(this.nodeOf(event));
    box.addEventListener('click', (event) => this.zoomTo(this.nodeOf(event)));
    box.addEventListener('keydown', (event) => this.onKey(event));
    box.addEventListener('pointerover', tell);
    box.addEventListener('focusin', tell);
  }

  show(content: TreeContent): void {
    this.tree = treeOf(content);
    this.children = new Children(this.tree.parents);
    this.zoom(0);
  }

  zoom(node: number): void {
    this.zoomed = node;
    this.buttons.clear();
    const places = flameLayout(this.tree, this.children, node, LEAST_SHARE);
    const deepest = places.reduce((most, place) => Math.max(most, place.depth), 0);
    const sheet = element('div', { class: 'sheet' }, ...places.map((place) => this.button(place)));
    sheet.style.height = `${(deepest + 1) * ROW_HEIGHT}px`;
    this.box.replaceChildren(sheet);
    this.tell(node);
  }

  private button({ node, depth, left, width }: FlamePlace): HTMLElement {
    const name = this.tree.names[node]!;
    const made = element('button', {
      type: 'button', class: node === 0 ? 'root' : null, title: this.text(node), tabindex: node === this.zoomed ? 0 : -1, 'data-node': node,
    }, width > LEAST_LABELLED ? shortFrame(name) : '');
    const colour = node === 0 ? '' : colourOfName(name);
    Object.assign(made.style, {
      left: `${100 * left}%`, width: `${100 * width}%`, top: `${depth * ROW_HEIGHT}px`, background: colour, color: colour && labelOn(colour),
    });
    this.buttons.set(node, made);
    return made;
  }

  private text(node: number): string {
    const { names, bytes, blocks } = this.tree;
    const whole = bytes[0]!;
    const share = word('share', { percent: formatPercent(whole > 0 ? bytes[node]! / whole : 0), whole: formatBytes(whole) });
    return `${names[node]}: ${formatBytes(bytes[node]!)}, ${share}, ${blocksText(blocks[node]!)}`;
  }

  private nodeOf(event: Event): number | null {
    const text = event.target instanceof Element ? event.target.getAttribute('data-node') : null;
    return text === null ? null : Number(text);
  }

  private tell(node: number | null): void {
    if (node !== null) this.readout.textContent = this.text(node);
  }

  private zoomTo(node: number | null): void {
    if (node === null) return;
    this.zoom(node);
    this.buttons.get(node)?.focus();
  }

  private onKey(event: KeyboardEvent): void {
    const node = this.nodeOf(event);
    if (node === null) return;
    if (event.key === 'Escape') this.zoomTo(this.tree.parents[this.zoomed]!);
    else {
      const direction = DIRECTIONS[event.key as keyof typeof DIRECTIONS];
      const next = direction && this.buttons.get(neighbour(this.tree, this.children, node, direction) ?? -1);
      if (!next) return;
      next.focus();
    }
    event.preventDefault();
  }
}
