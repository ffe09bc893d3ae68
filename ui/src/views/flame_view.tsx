/** Flame graph: who holds or allocates the bytes, by call stack or by owner. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { signal, useComputed, type ReadonlySignal, type Signal } from '@preact/signals';
import { Field, type FieldPlace } from '../canvas/field';
import { followed, useField, type FollowedField } from '../canvas/followed_field';
import type { Box } from '../canvas/rectangles';
import { visibleRows } from '../canvas/visible_rows';
import { FAILED_COLOUR, labelOn } from '../colour/palette';
import { flameLayout, neighbour, searchTree, type FlamePlace } from '../layout/flame';
import { Choice, Switch, Toggle } from '../parts/controls';
import { SourceButton } from '../parts/source';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { frameAnswer, useAnswer } from '../protocol/answer';
import type { TreeInfo } from '../protocol/types';
import { MEASURES } from '../state/fields';
import { tip } from '../state/hover';
import { theme } from '../state/preferences';
import { change, store } from '../state/store';
import { formatCount, formatPercent } from '../text/numbers';
import { isSite, shortFrame } from '../text/sites';
import { say, sayNamed } from '../words/say';
import { colourOfNode, flameRectangles, formatAmount, pathTo, treeData, treeParameters, type TreeData } from './flame_data';
import { flameDrawing } from './flame_drawing';

const ROW_HEIGHT = 20;
const LEAST_WIDTH = 0.0002;
const NODES = 6000;

interface Shown {
  tree: TreeData;
  places: FlamePlace[];
  zoomed: number;
  depth: number;
}

export function FlameView(): JSX.Element {
  const parameters = useComputed(() => {
    const common = treeParameters(store.measure.value);
    return common && { ...common, by: store.flameBy.value, frames: store.frames.value, nodes: NODES };
  });
  const answer = useAnswer(() => frameAnswer<TreeInfo>(() => parameters.value && { path: 'tree', parameters: parameters.value }));
  const tree = useComputed(() => (answer.value.value ? treeData(answer.value.value) : null));
  const focused = useMemo(() => signal<number | null>(null), []);
  const shown = useComputed((): Shown | null => {
    const data = tree.value;
    if (!data || data.names.length === 0) return null;
    const zoomed = data.nodes.get(store.node.value ?? -1) ?? 0;
    const places = flameLayout(data, data.children, zoomed, LEAST_WIDTH);
    return { tree: data, places, zoomed, depth: 1 + places.reduce((most, place) => Math.max(most, place.depth), 0) };
  });
  const found = useComputed(() => (tree.value && store.search.value ? searchTree(tree.value, store.search.value) : null));
  const isUpward = store.isUpward.value;
  const { host, field } = useField((element) => makeField(element, isUpward, shown, found, focused), [isUpward]);

  const data = shown.value;
  const node = data ? (focused.value !== null && focused.value < data.tree.names.length ? focused.value : data.zoomed) : 0;
  return (
    <section class="view" data-view="flame" aria-label={say('view_flame')}>
      <div class="view-head">
        <Choice
          name="measure" label={say('measure')} value={store.measure.value}
          options={MEASURES.map((value) => ({ value, text: sayNamed('measure', value) }))} onChoose={(measure) => change({ measure })}
        />
        <Switch
          name="flame-by" label={say('tree_of')} value={store.flameBy.value}
          options={[{ value: 'stack', text: say('by_stack') }, { value: 'owner', text: say('by_owner') }]}
          onChoose={(flameBy) => change({ flameBy, node: null })}
        />
        {store.flameBy.value === 'stack' && (
          <Toggle name="all-frames" isOn={store.frames.value === 'all'} onToggle={(isOn) => change({ frames: isOn ? 'all' : 'program', node: null })}>
            {say('all_frames')}
          </Toggle>
        )}
        <Toggle name="upward" isOn={isUpward} onToggle={(isOn) => change({ isUpward: isOn })}>{say('upward')}</Toggle>
        {data && data.zoomed !== 0 && <button type="button" data-action="whole-tree" onClick={() => change({ node: null })}>{say('whole_tree')}</button>}
        {found.value && <span class="quiet" data-found>{say('found', { n: formatCount(found.value.matches.size), share: formatPercent(found.value.share) })}</span>}
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools
          name="flame" python={data?.tree.info.python} picture={() => field.current?.picture() ?? null}
          drawing={() => (data ? flameDrawing(data.tree, data.places) : null)}
          download={parameters.value && { what: 'tree', parameters: parameters.value }}
        />
      </div>
      <Trouble answer={answer} />
      <div class="timed grow">
        <div class="scrolled" key={String(isUpward)} onScroll={() => field.current?.request()}>
          <div class="sheet" style={{ height: `${Math.max((data?.depth ?? 1) * ROW_HEIGHT, 40)}px` }}>
            <div class="field" ref={host} tabIndex={0} role="application" data-field="flame" aria-label={`${say('view_flame')}. ${say('flame_keys')}`} />
          </div>
        </div>
        <div class="beside" aria-live="polite">{data && <NodeDetail tree={data.tree} node={node} focused={focused} />}</div>
      </div>
    </section>
  );
}

function NodeDetail({ tree, node, focused }: { tree: TreeData; node: number; focused: Signal<number | null> }): JSX.Element {
  const bytes = tree.bytes[node]!;
  const name = tree.names[node]!;
  return (
    <div class="node-detail" data-node={node}>
      <h3>{shortFrame(name)}</h3>
      <dl>
        <dt>{say('amount')}</dt>
        <dd>{formatAmount(bytes, tree.info.unit)} ({formatPercent(tree.info.total > 0 ? bytes / tree.info.total : 0)})</dd>
        <dt>{say('blocks')}</dt>
        <dd>{formatCount(tree.blocks[node]!)}</dd>
      </dl>
      {isSite(name) && <SourceButton site={name} />}
      <ol class="path">
        {pathTo(tree, node).slice(0, -1).reverse().map((above) => (
          <li key={above}>
            <button type="button" class="plain" onClick={() => { focused.value = above; }}>{shortFrame(tree.names[above]!)}</button>
          </li>
        ))}
      </ol>
    </div>
  );
}

function makeField(
  host: HTMLElement, isUpward: boolean, shown: ReadonlySignal<Shown | null>,
  found: ReadonlySignal<{ matches: Set<number> } | null>, focused: Signal<number | null>,
): FollowedField {
  const box = (): Box => ({ from: 0, to: 1, ...visibleRows(host, ROW_HEIGHT, isUpward) });
  const zoom = (node: number): void => {
    const tree = shown.value?.tree;
    const key = tree?.keys[node];
    if (key === undefined) return;
    focused.value = node;
    store.node.value = node === 0 || !tree?.nodes.has(key) ? null : key;
  };
  const field = new Field(host, !isUpward, {
    box,
    ground: () => theme.value.ground,
    drawAbove: (context, place) => { if (shown.value) drawNames(context, place, shown.value, found.value?.matches ?? null, focused.value); },
    onHover: (point) => {
      const place = point ? shown.value?.places[point.hit] : undefined;
      focused.value = place?.node ?? focused.value;
      const bounds = host.getBoundingClientRect();
      tip.value = point && place && shown.value ? { x: bounds.left + point.left, y: bounds.top + point.top, ...wordsOf(shown.value.tree, place.node) } : null;
    },
    onClick: (point) => {
      const place = shown.value?.places[point.hit];
      if (place) zoom(place.node);
    },
    onKey: (event) => {
      const now = shown.value;
      if (!now) return false;
      const node = focused.value ?? now.zoomed;
      if (event.key === 'Enter' || event.key === ' ') zoom(node);
      else if (event.key === 'Escape') zoom(now.tree.parents[now.zoomed] ?? 0);
      else {
        const direction = ({ ArrowUp: isUpward ? 'down' : 'up', ArrowDown: isUpward ? 'up' : 'down', ArrowLeft: 'left', ArrowRight: 'right' } as const)[event.key];
        if (!direction) return false;
        focused.value = neighbour(now.tree, now.tree.children, node, direction) ?? node;
      }
      return true;
    },
  });
  return followed(field, () => {
    const now = shown.value;
    if (now) field.load(flameRectangles(now.tree, now.places, found.value?.matches ?? null, theme.value.ground), box());
  }, () => { void focused.value; });
}

function wordsOf(tree: TreeData, node: number): { title: string; lines: string[] } {
  const share = formatPercent(tree.info.total > 0 ? tree.bytes[node]! / tree.info.total : 0);
  return {
    title: tree.names[node]!,
    lines: [`${formatAmount(tree.bytes[node]!, tree.info.unit)} (${share})`, say('n_blocks', { n: formatCount(tree.blocks[node]!) })],
  };
}

const FONT = '11.5px system-ui, sans-serif';
const LEAST_LABEL = 28;

function drawNames(context: CanvasRenderingContext2D, place: FieldPlace, { tree, places }: Shown, matches: Set<number> | null, focused: number | null): void {
  context.font = FONT;
  context.textBaseline = 'middle';
  for (const one of places) {
    const left = place.x(one.left);
    const width = place.x(one.left + one.width) - left;
    const middle = (place.y(one.depth) + place.y(one.depth + 1)) / 2;
    if (one.node === focused) {
      context.strokeStyle = FAILED_COLOUR;
      context.lineWidth = 2;
      context.strokeRect(left + 1, middle - ROW_HEIGHT / 2 + 1, Math.max(width - 2, 1), ROW_HEIGHT - 3);
    }
    if (width < LEAST_LABEL) continue;
    context.fillStyle = matches && !matches.has(one.node) ? theme.value.quiet : labelOn(colourOfNode(tree, one.node));
    fitText(context, shortFrame(tree.names[one.node]!), left + 4, middle, width - 8);
  }
}

/** Writes as much of a text as there is room for. */
export function fitText(context: CanvasRenderingContext2D, text: string, left: number, middle: number, width: number): void {
  let shown = text;
  const whole = context.measureText(text).width;
  if (whole > width) {
    const letters = Math.floor((text.length * width) / whole) - 1;
    if (letters < 2) return;
    shown = `${text.slice(0, letters)}…`;
  }
  context.fillText(shown, left, middle);
}
