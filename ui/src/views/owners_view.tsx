/** Owners of what is in use at the moment, as a treemap. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { signal, useComputed } from '@preact/signals';
import { labelOn, lighter, REST_COLOUR } from '../colour/palette';
import { colourOfGroup } from '../colour/series';
import { treemapLayout, type TreemapPlace } from '../layout/treemap';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { useAnswer } from '../protocol/answer';
import type { TreeInfo } from '../protocol/types';
import { colouredAnswer, OWNER_PARTS } from '../state/coloured';
import { store } from '../state/store';
import { formatBytes, formatCount, formatPercent } from '../text/numbers';
import { say } from '../words/say';
import { pathTo, treeData, treeParameters, type TreeData } from './flame_data';

const NODES = 500;

export function OwnersView(): JSX.Element {
  const parameters = useComputed(() => {
    const common = treeParameters('moment');
    return common && { ...common, by: 'owner', nodes: NODES };
  });
  const answer = useAnswer(() => colouredAnswer<TreeInfo>(() => parameters.value && { path: 'tree', parameters: parameters.value }, () => 'owner'));
  const tree = useComputed(() => (answer.value.value ? treeData(answer.value.value) : null));
  const size = useMemo(() => signal({ width: 0, height: 0 }), []);
  const zoomed = useComputed(() => tree.value?.nodes.get(store.ownerNode.value ?? -1) ?? 0);
  const places = useComputed(() => {
    const { width, height } = size.value;
    return tree.value && tree.value.names.length > 0 && width > 0 ? treemapLayout(tree.value, zoomed.value, width, height) : [];
  });
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => { size.value = { width: element.clientWidth, height: element.clientHeight }; });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const data = tree.value;
  return (
    <section class="view" data-view="owners" aria-label={say('view_owners')}>
      <div class="view-head">
        <nav class="crumbs" aria-label={say('path')}>
          {data && data.names.length > 0 && pathTo(data, zoomed.value).map((node) => (
            <button type="button" class="plain" key={node} aria-current={node === zoomed.value} onClick={() => { store.ownerNode.value = keyOf(data, node); }}>
              {data.names[node]} <span class="quiet">{formatBytes(data.bytes[node]!)}</span>
            </button>
          ))}
        </nav>
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools name="owners" python={data?.info.python} download={parameters.value && { what: 'tree', parameters: parameters.value }} />
      </div>
      <Trouble answer={answer} />
      <div class="treemap grow" ref={host} data-treemap>
        {data && places.value.map((place) => <Tile key={place.node} tree={data} place={place} />)}
      </div>
    </section>
  );
}

function keyOf(tree: TreeData, node: number): number | null {
  const key = tree.keys[node]!;
  return node === 0 || !tree.nodes.has(key) ? null : key;
}

function Tile({ tree, place }: { tree: TreeData; place: TreemapPlace }): JSX.Element {
  const { node } = place;
  const bytes = tree.bytes[node]!;
  const colour = tileColour(tree, node);
  const text = say('owner_text', {
    name: tree.names[node]!, bytes: formatBytes(bytes), n: formatCount(tree.blocks[node]!),
    share: formatPercent(tree.info.total > 0 ? bytes / tree.info.total : 0),
  });
  return (
    <button
      type="button" class={place.hasChildren ? 'tile inner' : 'tile'} data-node={node} title={text} aria-label={text}
      style={{
        left: `${place.left}px`, top: `${place.top}px`, width: `${place.width}px`, height: `${place.height}px`, background: colour, color: labelOn(colour),
      }}
      onClick={() => { store.ownerNode.value = keyOf(tree, place.hasChildren ? node : tree.parents[node]!); }}
    >
      {place.width > 40 && place.height > 14 && <span>{tree.names[node]} <small>{formatBytes(bytes)}</small></span>}
    </button>
  );
}

/** All parts of an owner have its hue, the inner ones lighter; folded ones have none. */
function tileColour(tree: TreeData, node: number): string {
  const path = pathTo(tree, node);
  const first = path[Math.min(path.length - 1, 2)]!;
  return first === 0 || !tree.nodes.has(tree.keys[first]!) ? REST_COLOUR : lighter(colourOfGroup(OWNER_PARTS, tree.names[first]!), 0.14 * Math.max(path.length - 3, 0));
}
