/** Where the nodes of a tree lie when one of them fills the width. */
import type { Numbers } from '../protocol/frame';

export interface Tree {
  names: string[];
  parents: Numbers;
  bytes: Numbers;
  blocks: Numbers;
  depths: Numbers;
  keys: Numbers;
}

export interface FlamePlace {
  node: number;
  depth: number;
  left: number;
  width: number;
}

/** The children of each node as ranges of one list; siblings keep the order of the answer, the largest first. */
export class Children {
  private readonly starts: Uint32Array;
  private readonly list: Uint32Array;

  constructor(parents: Numbers) {
    const count = parents.length;
    this.starts = new Uint32Array(count + 1);
    for (let node = 1; node < count; node += 1) this.starts[parents[node]! + 1]! += 1;
    for (let node = 0; node < count; node += 1) this.starts[node + 1]! += this.starts[node]!;
    this.list = new Uint32Array(Math.max(count - 1, 0));
    const next = this.starts.slice();
    for (let node = 1; node < count; node += 1) {
      this.list[next[parents[node]!]!] = node;
      next[parents[node]!]! += 1;
    }
  }

  of(node: number): Uint32Array {
    return this.list.subarray(this.starts[node], this.starts[node + 1]);
  }
}

/** Places in shares of the width: those above the zoomed node are as wide as it. */
export function flameLayout(tree: Tree, children: Children, zoomed: number, leastWidth: number): FlamePlace[] {
  const above: number[] = [];
  for (let node = zoomed; node !== 0; node = tree.parents[node]!) above.unshift(tree.parents[node]!);
  const placed: FlamePlace[] = above.map((node, depth) => ({ node, depth, left: 0, width: 1 }));
  const waiting: FlamePlace[] = [{ node: zoomed, depth: above.length, left: 0, width: 1 }];
  for (let place = waiting.pop(); place; place = waiting.pop()) {
    placed.push(place);
    const whole = tree.bytes[place.node]!;
    let { left } = place;
    for (const child of children.of(place.node)) {
      const width = whole > 0 ? (place.width * tree.bytes[child]!) / whole : 0;
      if (width >= leastWidth) waiting.push({ node: child, depth: place.depth + 1, left, width });
      left += width;
    }
  }
  return placed;
}

/** The node that an arrow key leads to; undefined where there is none. */
export function neighbour(tree: Tree, children: Children, node: number, direction: 'up' | 'down' | 'left' | 'right'): number | undefined {
  if (direction === 'up') return node === 0 ? undefined : tree.parents[node];
  if (direction === 'down') return children.of(node)[0];
  const siblings = node === 0 ? new Uint32Array() : children.of(tree.parents[node]!);
  const place = siblings.indexOf(node);
  return siblings[direction === 'right' ? place + 1 : place - 1];
}

/** What of a tree matches a search: the nodes, and their share of the whole, with none counted twice. */
export function searchTree(tree: Tree, text: string): { matches: Set<number>; share: number } {
  const wanted = text.trim().toLowerCase();
  const matches = new Set<number>();
  if (!wanted) return { matches, share: 0 };
  const isWithin = new Uint8Array(tree.names.length);
  let bytes = 0;
  for (let node = 0; node < tree.names.length; node += 1) {
    const isMatch = tree.names[node]!.toLowerCase().includes(wanted);
    const isBelow = node > 0 && isWithin[tree.parents[node]!] === 1;
    if (isMatch) matches.add(node);
    if (isMatch && !isBelow) bytes += tree.bytes[node]!;
    isWithin[node] = isMatch || isBelow ? 1 : 0;
  }
  return { matches, share: tree.bytes[0]! > 0 ? bytes / tree.bytes[0]! : 0 };
}
