/** Calls of Python and operators below the curve, on the same axis. */
import type { JSX } from 'preact';
import { useComputed, type ReadonlySignal } from '@preact/signals';
import { Field, type FieldPlace } from '../canvas/field';
import { followed, useField, type FollowedField } from '../canvas/followed_field';
import type { Box } from '../canvas/rectangles';
import { visibleRows } from '../canvas/visible_rows';
import { labelOn } from '../colour/palette';
import { colourOfName } from '../colour/series';
import { GUTTER } from '../memory/curve';
import { windowKey } from '../memory/memory_view';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { frameAnswer, useAnswer } from '../protocol/answer';
import type { CallsInfo } from '../protocol/types';
import { pointed, tip } from '../state/hover';
import { mainLens, panWindow, showWindow, zoomWindow } from '../state/lens';
import { theme } from '../state/preferences';
import { change } from '../state/store';
import { formatCount, formatPosition, formatSpan } from '../text/numbers';
import { isSite, shortFrame } from '../text/sites';
import { say } from '../words/say';
import { callsData, type CallsData } from './calls_data';
import { fitText } from './flame_view';
import { drawLines, readLines } from './over_time';

const ROW_HEIGHT = 18;
const lens = mainLens;

export function CallsView(): JSX.Element {
  const parameters = useComputed(() => {
    const common = lens.commonWindow();
    return common && lens.process.value?.has_calls ? common : null;
  });
  const answer = useAnswer(() => frameAnswer<CallsInfo>(() => parameters.value && { path: 'calls', parameters: parameters.value }));
  const data = useComputed(() => (answer.value.value ? callsData(answer.value.value) : null));
  const { host, field } = useField((element) => makeField(element, data));
  const shown = data.value;
  const isUnknown = lens.process.value?.has_calls === false;
  return (
    <section class="view" data-view="calls" aria-label={say('view_calls')}>
      <div class="view-head">
        {shown && (
          <span data-small>
            {say('calls_shown', { n: formatCount(shown.count) })} {shown.info.small.calls > 0 && say('calls_small', { n: formatCount(shown.info.small.calls) })}
          </span>
        )}
        <span class="spring" />
        <Waiting answer={answer} />
        <Tools
          name="calls" python={shown?.info.python} picture={() => field.current?.picture() ?? null}
          download={parameters.value && { what: 'calls', parameters: parameters.value }}
        />
      </div>
      <Trouble answer={answer} />
      {isUnknown && <p class="quiet" data-unknown>{say('no_calls')}</p>}
      <div class="timed grow" hidden={isUnknown}>
        <div class="over-time scrolled" onScroll={() => field.current?.request()}>
          <div class="sheet" style={{ height: `${Math.max((shown?.rowCount ?? 1) * ROW_HEIGHT, 40)}px`, marginLeft: `${GUTTER}px` }}>
            <div class="field" ref={host} tabIndex={0} role="application" data-field="calls" aria-label={`${say('view_calls')}. ${say('memory_keys')}`} />
          </div>
        </div>
        <div class="beside" />
      </div>
    </section>
  );
}

function makeField(host: HTMLElement, data: ReadonlySignal<CallsData | null>): FollowedField {
  const box = (): Box => ({ ...lens.window.value, ...visibleRows(host, ROW_HEIGHT) });
  const field = new Field(host, true, {
    box,
    ground: () => theme.value.ground,
    drawAbove: (context, place) => {
      if (data.value) drawNames(context, place, data.value);
      drawLines(context, place, lens);
    },
    onHover: (point) => {
      pointed.value = point && { lens, position: point.horizontal };
      const calls = data.value;
      const bounds = host.getBoundingClientRect();
      tip.value = point && calls && point.hit >= 0 ? {
        x: bounds.left + point.left,
        y: bounds.top + point.top,
        title: calls.names[point.hit]!,
        lines: [
          formatSpan(calls.end[point.hit]! - calls.begin[point.hit]!, lens.axis.value),
          say('from_position', { place: formatPosition(calls.begin[point.hit]!, lens.axis.value, (lens.window.value.to - lens.window.value.from) / 1000) }),
        ],
      } : null;
    },
    onClick: (point, event) => {
      const calls = data.value;
      if (!calls || point.hit < 0) return;
      if (event.shiftKey) change({ range: { from: calls.begin[point.hit]!, to: calls.end[point.hit]! } });
      else if (event.detail > 1) showWindow(lens, { from: calls.begin[point.hit]!, to: calls.end[point.hit]! });
      else if (isSite(calls.names[point.hit]!)) change({ site: calls.names[point.hit]! });
    },
    onPan: (right, down) => {
      panWindow(lens, -right);
      host.closest('.scrolled')?.scrollBy(0, -down * host.clientHeight);
    },
    onZoom: (across, _, factor) => {
      const { from, to } = lens.window.value;
      zoomWindow(lens, from + across * (to - from), factor);
    },
    onKey: (event) => windowKey(lens, event),
  });
  return followed(field, () => { if (data.value) field.load(data.value, box()); }, () => {
    void lens.window.value;
    readLines(lens);
  });
}

const LEAST_LABEL = 30;

function drawNames(context: CanvasRenderingContext2D, place: FieldPlace, calls: CallsData): void {
  context.textBaseline = 'middle';
  context.font = '600 11px system-ui, sans-serif';
  context.fillStyle = theme.value.quiet;
  calls.info.tracks.forEach((track, number) => context.fillText(track.name, 4, place.y(calls.headings[number]! + 0.5)));
  context.font = '11px system-ui, sans-serif';
  for (let call = 0; call < calls.count; call += 1) {
    const left = Math.max(place.x(calls.begin[call]!), 0);
    const right = Math.min(place.x(calls.end[call]!), place.width);
    if (right - left < LEAST_LABEL) continue;
    context.fillStyle = labelOn(colourOfName(calls.names[call]!));
    fitText(context, shortFrame(calls.names[call]!), left + 3, place.y(calls.low[call]! + 0.5), right - left - 6);
  }
}
