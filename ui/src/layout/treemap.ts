/** Where the nodes of a tree lie in a treemap. */
import { hierarchy, treemap, treemapSquarify } from 'd3-hierarchy';
import { Children, type Tree } from './flame';

export interface TreemapPlace {
  node: number;
  depth: number;
  left: number;
  top: number;
  width: number;
  height: number;
  hasChildren: boolean;
}

const HEADING = 18;
const GAP = 1;

interface Datum {
  node: number;
}

export function treemapLayout(tree: Tree, zoomed: number, width: number, height: number): TreemapPlace[] {
  const children = new Children(tree.parents);
  const root = hierarchy<Datum>({ node: zoomed }, ({ node }) => Array.from(children.of(node), (child) => ({ node: child })));
  // A node's own bytes are those that its children do not have: they keep their room as an empty part of it.
  root.sum(({ node }) => {
    let own = tree.bytes[node]!;
    for (const child of children.of(node)) own -= tree.bytes[child]!;
    return Math.max(own, 0);
  });
  const placed = treemap<Datum>()
    .tile(treemapSquarify)
    .size([width, height])
    .paddingInner(GAP)
    .paddingOuter((node) => (node.depth > 0 ? GAP : 0))
    .paddingTop((node) => (node.depth > 0 && node.x1 - node.x0 > 30 ? HEADING : GAP))
    .round(true)(root);
  return placed.descendants().slice(root.children ? 1 : 0).map((one) => ({
    node: one.data.node,
    depth: one.depth,
    left: one.x0,
    top: one.y0,
    width: one.x1 - one.x0,
    height: one.y1 - one.y0,
    hasChildren: one.children !== undefined,
  })).filter((one) => one.width >= 1 && one.height >= 1);
}
