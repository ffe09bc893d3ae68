import { describe, expect, it } from 'vitest';
import { Children, flameLayout, neighbour, searchTree, type Tree } from '../src/layout/flame';
import { treemapLayout } from '../src/layout/treemap';

function tree(nodes: readonly (readonly [string, number, number])[]): Tree {
  const numbers = (value: (node: number) => number): Float64Array => Float64Array.from(nodes, (_, node) => value(node));
  const depths = new Float64Array(nodes.length);
  nodes.forEach(([, parent], node) => { depths[node] = node === 0 ? 0 : depths[parent]! + 1; });
  return {
    names: nodes.map(([name]) => name), parents: numbers((node) => nodes[node]![1]), bytes: numbers((node) => nodes[node]![2]),
    blocks: numbers(() => 1), depths, keys: numbers((node) => node),
  };
}

const example = tree([['all', 0, 100], ['train', 0, 60], ['data', 0, 30], ['forward', 1, 40], ['backward', 1, 20], ['forward', 3, 40]]);
const children = new Children(example.parents);

describe('flame graph', () => {
  it('gives each node its share of its parent, siblings beside each other', () => {
    const places = new Map(flameLayout(example, children, 0, 0).map((place) => [place.node, place]));
    expect(places.get(1)).toMatchObject({ depth: 1, left: 0, width: 0.6 });
    expect(places.get(2)).toMatchObject({ depth: 1, left: 0.6, width: 0.3 });
    expect(places.get(4)!.left).toBeCloseTo(0.4);
    expect(places.get(4)!.width).toBeCloseTo(0.2);
  });

  it('widens a zoomed node and those above it', () => {
    const places = flameLayout(example, children, 3, 0);
    expect(places.map((place) => [place.node, place.depth, place.width])).toEqual([[0, 0, 1], [1, 1, 1], [3, 2, 1], [5, 3, 1]]);
  });

  it('leaves out what cannot be seen', () => {
    expect(flameLayout(example, children, 0, 0.35).map((place) => place.node)).toEqual([0, 1, 3, 5]);
  });

  it('goes with the keys to parents, children and siblings', () => {
    expect(neighbour(example, children, 3, 'up')).toBe(1);
    expect(neighbour(example, children, 1, 'down')).toBe(3);
    expect(neighbour(example, children, 3, 'right')).toBe(4);
    expect(neighbour(example, children, 3, 'left')).toBeUndefined();
    expect(neighbour(example, children, 0, 'up')).toBeUndefined();
    expect(neighbour(example, children, 0, 'right')).toBeUndefined();
  });

  it('counts no bytes twice in a search', () => {
    const { matches, share } = searchTree(example, 'FORWARD');
    expect([...matches]).toEqual([3, 5]);
    expect(share).toBeCloseTo(0.4);
    expect(searchTree(example, ' ').matches.size).toBe(0);
  });
});

describe('treemap', () => {
  it('gives areas as the bytes, and keeps children inside their parent', () => {
    const places = new Map(treemapLayout(example, 0, 1000, 600).map((place) => [place.node, place]));
    const area = (node: number): number => places.get(node)!.width * places.get(node)!.height;
    expect(area(1) / area(2)).toBeCloseTo(2, 1);
    const [outer, inner] = [places.get(1)!, places.get(3)!];
    expect(inner.left).toBeGreaterThanOrEqual(outer.left);
    expect(inner.top).toBeGreaterThan(outer.top);
    expect(inner.left + inner.width).toBeLessThanOrEqual(outer.left + outer.width);
    expect(inner.top + inner.height).toBeLessThanOrEqual(outer.top + outer.height);
    expect(places.has(0)).toBe(false);
  });

  it('shows a zoomed node without children as itself', () => {
    expect(treemapLayout(example, 2, 100, 100)).toMatchObject([{ node: 2, width: 100, height: 100 }]);
  });
});
