/** Blocks as rectangles: when they were in use, and where. */
import type { JSX } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { effect, signal, useComputed, type ReadonlySignal } from '@preact/signals';
import { Field, type FieldPlace, type FieldPoint } from '../canvas/field';
import { followed, useField, type FollowedField } from '../canvas/followed_field';
import type { Box } from '../canvas/rectangles';
import { FAILED_COLOUR, hexOf, sequential } from '../colour/palette';
import { colourOfGroup } from '../colour/series';
import { GUTTER } from '../memory/curve';
import { windowKey } from '../memory/memory_view';
import { Choice, Switch } from '../parts/controls';
import { ByteGutter } from '../parts/gutter';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { useAnswer } from '../protocol/answer';
import { askJson } from '../protocol/ask';
import type { BlocksInfo } from '../protocol/types';
import { COLOURS } from '../state/fields';
import { pointed, tip } from '../state/hover';
import { colouredAnswer } from '../state/coloured';
import { mainLens, panWindow, zoomWindow } from '../state/lens';
import { theme } from '../state/preferences';
import { change, store } from '../state/store';
import { beginWork } from '../state/work';
import { formatBytes, formatCount, formatPercent, formatSpan } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say, sayNamed } from '../words/say';
import { isScale, mapData, smallArea, type MapData } from './map_data';
import { drawLines, readLines } from './over_time';

const MOST = 100_000;

/** Addresses that span more than this many times what was ever in use at once leave blocks too thin to see. */
const SPARSE = 16;

const lens = mainLens;

export function MapView(): JSX.Element {
  const height = useMemo(() => signal(300), []);
  const extent = useMemo(() => signal({ low: 0, high: 1 }), []);
  const parameters = useComputed(() => {
    const common = lens.commonWindow();
    const vertical = store.mapHeight.value;
    return common && {
      ...common, layout: layoutOf(), colour: store.mapColour.value, low: vertical?.from, high: vertical?.to, most: MOST,
    };
  });
  const answer = useAnswer(() => colouredAnswer<BlocksInfo>(
    () => parameters.value && { path: 'blocks', parameters: parameters.value }, (asked) => String(asked.parameters['colour']),
  ));
  const data = useComputed(() => (answer.value.value ? mapData(answer.value.value, colourAsked(answer.value.value.info)) : null));
  const box = useComputed((): Box => {
    const { from, to } = lens.window.value;
    const vertical = store.mapHeight.value;
    return { from, to, low: vertical?.from ?? extent.value.low, high: vertical?.to ?? extent.value.high };
  });

  useEffect(() => effect(() => {
    const info = data.value?.info;
    if (info && store.mapHeight.peek() === null) extent.value = { low: info.low, high: Math.max(info.high, info.low + 1) };
  }), []);
  // Behind the effect above: rectangles are loaded in the box that is theirs.
  const { host, field } = useField((element) => makeField(element, box, data, (to) => { height.value = to; }));

  const { low, high } = box.value;
  return (
    <section class="view" data-view="map" aria-label={say('view_map')}>
      <div class="view-head">
        <Switch
          name="layout" label={say('layout')} value={layoutOf()}
          options={[{ value: 'address', text: say('layout_address') }, { value: 'stacked', text: say('layout_stacked') }]}
          onChoose={(mapLayout) => change({ mapLayout, mapHeight: null })}
        />
        <Choice
          name="colour" label={say('colour_by')} value={store.mapColour.value}
          options={COLOURS.map((value) => ({ value, text: sayNamed('by', value) }))} onChoose={(mapColour) => change({ mapColour })}
        />
        {store.mapHeight.value && <button type="button" data-action="whole-height" onClick={() => change({ mapHeight: null })}>{say('whole_height')}</button>}
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools
          name="blocks" python={data.value?.info.python} picture={() => field.current?.picture() ?? null}
          download={parameters.value && { what: 'blocks', parameters: parameters.value }}
        />
      </div>
      <Trouble answer={answer} />
      <div class="timed grow">
        <div class="over-time framed">
          <ByteGutter low={low} high={high} height={height.value} />
          <div
            class="field" ref={host} tabIndex={0} role="application" data-field="map" style={{ left: `${GUTTER}px` }}
            aria-label={`${say('view_map')}. ${say('map_keys')}`}
          />
        </div>
        <div class="beside">{data.value && <ColourLegend data={data.value} />}</div>
      </div>
      <p class="readout" data-small>{data.value && smallText(data.value.info)}</p>
    </section>
  );
}

function layoutOf(): 'address' | 'stacked' {
  const chosen = store.mapLayout.value;
  const pool = lens.pool.value;
  if (chosen !== 'auto') return chosen;
  return pool && pool.address_bytes > SPARSE * pool.peak_bytes ? 'stacked' : 'address';
}

/** The colour of an answer is that of its question: by a scale there are no groups. */
function colourAsked(info: BlocksInfo): string {
  const wanted = store.mapColour.peek();
  return info.colours.length === 0 && !isScale(wanted) ? 'size' : wanted;
}

function smallText({ shown, small }: BlocksInfo): string {
  const text = say('blocks_shown', { n: formatCount(shown) });
  if (small.blocks === 0) return `${text} ${say('blocks_all')}`;
  return `${text} ${say('blocks_small', { n: formatCount(small.blocks), bytes: formatBytes(small.bytes), share: formatPercent(small.byte_share) })}`;
}

function ColourLegend({ data }: { data: MapData }): JSX.Element {
  if (isScale(data.colour)) {
    const steps = Array.from({ length: 16 }, (_, place) => hexOf(sequential(place / 15)));
    return (
      <div class="scale">
        <span>{say(data.colour === 'age' ? 'scale_young' : 'scale_small')}</span>
        <span class="scale-bar">{steps.map((colour) => <i key={colour} style={{ background: colour }} />)}</span>
        <span>{say(data.colour === 'age' ? 'scale_old' : 'scale_large')}</span>
      </div>
    );
  }
  return (
    <ul class="legend">
      {data.info.colours.map((one) => (
        <li key={`${one.key}${one.name}`}>
          <span class="swatch" style={{ background: colourOfGroup(data.colour, one.name, one.key === null) }} />
          <span class="name" title={one.name}>{one.key === null ? say('rest') : shortSite(one.name)}</span>
        </li>
      ))}
    </ul>
  );
}

function zoomHeight(box: Box, centre: number, factor: number): void {
  const span = Math.max((box.high - box.low) * factor, 64);
  const share = (centre - box.low) / (box.high - box.low || 1);
  const from = Math.round(Math.max(centre - share * span, 0));
  store.mapHeight.value = { from, to: Math.round(from + span) };
}

function panHeight(box: Box, share: number): void {
  const span = box.high - box.low;
  const from = Math.max(box.low + share * span, 0);
  store.mapHeight.value = { from: Math.round(from), to: Math.round(from + span) };
}

function makeField(
  host: HTMLElement, box: ReadonlySignal<Box>, data: ReadonlySignal<MapData | null>, onHeight: (height: number) => void,
): FollowedField {
  let area: ReturnType<typeof smallArea> = null;
  const field = new Field(host, false, {
    box: () => box.value,
    ground: () => theme.value.ground,
    onResize: (_, height) => onHeight(height),
    drawAbove: (context, place) => {
      if (area) drawSmall(context, place, area);
      if (data.value) outlineBlock(context, place, data.value);
      drawLines(context, place, lens);
    },
    onHover: (point) => {
      pointed.value = point && { lens, position: point.horizontal };
      tip.value = point && data.value ? tipOf(host, point, data.value) : null;
    },
    onClick: (point) => {
      const block = data.value?.blocks[point.hit];
      if (block !== undefined) store.block.value = block;
      else void chooseMoment(point.horizontal);
    },
    onPan: (right, down) => {
      panWindow(lens, -right);
      if (store.mapHeight.value) panHeight(box.value, down);
    },
    onZoom: (across, down, factor, isVertical) => {
      const { from, to, low, high } = box.value;
      if (isVertical) zoomHeight(box.value, high - down * (high - low), factor);
      else zoomWindow(lens, from + across * (to - from), factor);
    },
    onKey: (event) => heightKey(event, box.value) || windowKey(lens, event),
  });
  return followed(field, () => {
    const loaded = data.value;
    if (!loaded) return;
    area = layoutOf() === 'stacked' ? smallArea(loaded) : null;
    field.load(loaded, box.peek());
  }, () => {
    void [box.value, store.block.value];
    readLines(lens);
  });
}

/** Where no block is, a click chooses the moment: the latest event at that position. */
async function chooseMoment(position: number): Promise<void> {
  const common = lens.common();
  if (!common) return;
  const end = beginWork();
  try {
    const moment = await askJson<{ row: number }>({ path: 'at', parameters: { ...common, position: Math.round(position) } });
    store.row.value = moment.row;
  } catch {
    // The views that ask by themselves show what is wrong with the server.
  } finally {
    end();
  }
}

function heightKey(event: KeyboardEvent, box: Box): boolean {
  const middle = (box.low + box.high) / 2;
  if (event.key === 'ArrowUp') panHeight(box, 0.2);
  else if (event.key === 'ArrowDown') panHeight(box, -0.2);
  else if (event.key === 'PageUp') zoomHeight(box, middle, 0.7);
  else if (event.key === 'PageDown') zoomHeight(box, middle, 1 / 0.7);
  else if (event.key === 'End') store.mapHeight.value = null;
  else return false;
  return true;
}

function tipOf(host: HTMLElement, point: FieldPoint, data: MapData): NonNullable<typeof tip.value> | null {
  if (point.hit < 0) return null;
  const bounds = host.getBoundingClientRect();
  const size = data.high[point.hit]! - data.low[point.hit]!;
  const group = isScale(data.colour) ? undefined : data.info.colours[data.groups[point.hit]!];
  const isPiece = layoutOf() === 'stacked';
  return {
    x: bounds.left + point.left,
    y: bounds.top + point.top,
    title: say('block_number', { n: formatCount(data.blocks[point.hit]!) }),
    lines: [
      formatBytes(size),
      ...(group ? [`${sayNamed('by', data.colour)}: ${group.key === null ? say('rest') : shortSite(group.name)}`] : []),
      ...(isPiece ? [] : [say('lives', { span: formatSpan(data.end[point.hit]! - data.begin[point.hit]!, lens.axis.value) })]),
      ...(data.neverFreed[point.hit] ? [say('never_freed')] : []),
    ],
  };
}

function outlineBlock(context: CanvasRenderingContext2D, place: FieldPlace, data: MapData): void {
  const chosen = store.block.value;
  if (chosen === null) return;
  for (let number = 0; number < data.count; number += 1) {
    if (data.blocks[number] !== chosen) continue;
    const left = Math.max(place.x(data.begin[number]!), -4);
    const right = Math.min(place.x(data.end[number]!), place.width + 4);
    const upper = place.y(data.high[number]!);
    // On a ground of its own, as its neighbours may have any colour.
    for (const [colour, width] of [[theme.value.ground, 5], [FAILED_COLOUR, 2.5]] as const) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(left - 1, upper - 1, Math.max(right - left, 2) + 2, Math.max(place.y(data.low[number]!) - upper, 2) + 2);
    }
  }
}

function drawSmall(context: CanvasRenderingContext2D, place: FieldPlace, area: NonNullable<ReturnType<typeof smallArea>>): void {
  context.beginPath();
  area.position.forEach((position, column) => context.lineTo(place.x(position), place.y(area.upper[column]!)));
  for (let column = area.position.length - 1; column >= 0; column -= 1) context.lineTo(place.x(area.position[column]!), place.y(area.lower[column]!));
  context.closePath();
  context.fillStyle = theme.value.quiet;
  context.globalAlpha = 0.4;
  context.fill();
  context.globalAlpha = 1;
}
