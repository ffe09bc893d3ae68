/** Trees as the flame graph and the treemap ask for them, and their rectangles. */
import type { RectangleSet } from '../canvas/rectangles';
import { REST_COLOUR, rgbOf } from '../colour/palette';
import { colourOfName } from '../colour/series';
import { Children, type FlamePlace, type Tree } from '../layout/flame';
import type { Parameters } from '../protocol/ask';
import type { Frame } from '../protocol/frame';
import type { TreeInfo } from '../protocol/types';
import { mainLens } from '../state/lens';
import { store } from '../state/store';
import { formatByteSeconds, formatBytes } from '../text/numbers';

export const FOLDED_KEY = 4294967295;

export interface TreeData extends Tree {
  children: Children;
  info: TreeInfo;
  /** The node of each key. */
  nodes: Map<number, number>;
}

export function treeData({ info, table }: Frame<TreeInfo>): TreeData {
  const parents = table.numbers('parent');
  const keys = table.numbers('key');
  const nodes = new Map<number, number>();
  keys.forEach((key, node) => { if (key !== FOLDED_KEY) nodes.set(key, node); });
  return {
    names: table.texts('name'), parents, bytes: table.numbers('bytes'), blocks: table.numbers('blocks'), depths: table.numbers('depth'),
    keys, children: new Children(parents), info, nodes,
  };
}

/** The question for a tree of the chosen measure: at the moment, or within the chosen range, or what is in the window. */
export function treeParameters(measure: string): Parameters | null {
  const common = mainLens.common();
  if (!common) return null;
  if (measure === 'moment') return { ...common, measure, row: mainLens.row.value };
  if (measure === 'churn' || measure === 'byte_seconds') {
    const { from, to } = store.range.value ?? mainLens.window.value;
    return { ...common, measure, from, to };
  }
  return { ...common, measure };
}

export function formatAmount(amount: number, unit: TreeInfo['unit']): string {
  return unit === 'bytes' ? formatBytes(amount) : formatByteSeconds(amount);
}

export function colourOfNode(tree: Tree, node: number): string {
  return node === 0 || tree.keys[node] === FOLDED_KEY ? REST_COLOUR : colourOfName(tree.names[node]!);
}

const DIMMED = 0.7;

/** Rectangles in shares of the width and in rows; what does not match a search is drawn back towards the ground. */
export function flameRectangles(tree: Tree, places: readonly FlamePlace[], matches: Set<number> | null, ground: string): RectangleSet {
  const count = places.length;
  const numbers = (value: (place: FlamePlace) => number): Float64Array => Float64Array.from(places, value);
  const colours = new Uint8Array(count * 4);
  const back = rgbOf(ground);
  places.forEach(({ node }, number) => {
    const shade = rgbOf(colourOfNode(tree, node));
    const share = matches && !matches.has(node) ? DIMMED : 0;
    colours.set([...shade.map((part, place) => part + (back[place]! - part) * share), 255], number * 4);
  });
  return {
    count, begin: numbers(({ left }) => left), end: numbers(({ left, width }) => left + width), low: numbers(({ depth }) => depth),
    high: numbers(({ depth }) => depth + 1), colours,
  };
}

/** From the root to a node. */
export function pathTo(tree: Tree, node: number): number[] {
  const path = [node];
  while (path[0] !== 0) path.unshift(tree.parents[path[0]!]!);
  return path;
}
