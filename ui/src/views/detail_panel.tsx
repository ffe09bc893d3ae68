/** The panel at the side: a source excerpt, and everything known of the chosen block. */
import type { ComponentChildren, JSX } from 'preact';
import { Excerpt, Stack } from '../parts/source';
import { Trouble, Waiting } from '../parts/status';
import { Tools } from '../parts/tools';
import { jsonAnswer, useAnswer } from '../protocol/answer';
import type { BlockDetail, HistoryBlock, Place } from '../protocol/types';
import { mainLens } from '../state/lens';
import { change, store } from '../state/store';
import { formatBytes, formatCount, formatPosition, formatSpan, type AxisName } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say } from '../words/say';

export function DetailPanel(): JSX.Element | null {
  const { block, site } = store;
  if (block.value === null && !site.value) return null;
  return (
    <aside class="panel" data-panel aria-label={say('details')}>
      {site.value && (
        <section data-panel-source>
          <PanelHead title={say('source')} onClose={() => change({ site: '' })} />
          <p class="site-name" title={site.value}>{shortSite(site.value)}</p>
          <Excerpt site={site.value} />
        </section>
      )}
      {block.value !== null && <BlockPart />}
    </aside>
  );
}

function PanelHead({ title, onClose, children }: { title: string; onClose: () => void; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="panel-head">
      <h2>{title}</h2>
      <span class="spring" />
      {children}
      <button type="button" data-action="close" aria-label={say('close')} title={say('close')} onClick={onClose}>×</button>
    </div>
  );
}

function BlockPart(): JSX.Element {
  const answer = useAnswer(() => jsonAnswer<BlockDetail>(() => {
    const process = mainLens.process.value;
    return process && store.block.value !== null
      ? { path: 'block', parameters: { process: process.process, block: store.block.value } }
      : null;
  }));
  const detail = answer.value.value;
  return (
    <section data-block={store.block.value}>
      <PanelHead title={say('block_number', { n: formatCount(store.block.value ?? 0) })} onClose={() => change({ block: null })}>
        <Waiting answer={answer} />
        <Tools name="block" python={detail?.python} />
      </PanelHead>
      <Trouble answer={answer} />
      {detail && <Facts detail={detail} />}
      {detail && detail.stack.length > 0 && <Part title={say('stack')}><Stack frames={detail.stack} /></Part>}
      {detail?.free_stack && detail.free_stack.length > 0 && <Part title={say('free_stack')}><Stack frames={detail.free_stack} /></Part>}
      {detail?.native_stack && detail.native_stack.length > 0 && (
        <details>
          <summary>{say('native_stack', { n: detail.native_stack.length })}</summary>
          <ol class="frames">{detail.native_stack.map((text, number) => <li key={number}>{text}</li>)}</ol>
        </details>
      )}
      {detail && <History detail={detail} />}
    </section>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
  return <><h3>{title}</h3>{children}</>;
}

/** A moment that can be gone to. */
function MomentButton({ place, axis }: { place: Place; axis: AxisName }): JSX.Element {
  const time = axis === 'time' ? place.time : null;
  return (
    <button type="button" class="plain" data-row={place.row} title={say('go_to_moment')} onClick={() => change({ row: place.row })}>
      {time === null ? '' : `${formatPosition(time, 'time', 1e4)} · `}{say('event_number', { n: formatCount(place.sequence) })}
    </button>
  );
}

function lifeOf(detail: BlockDetail, axis: AxisName): string {
  if (!detail.end) return say('never_freed');
  const { begin, end } = detail;
  const span = axis === 'time' && begin.time !== null && end.time !== null ? end.time - begin.time : end.events - begin.events;
  return axis === 'time' ? formatSpan(span, axis) : say('n_events', { n: formatCount(span) });
}

function Facts({ detail }: { detail: BlockDetail }): JSX.Element {
  const axis = mainLens.axis.value;
  const facts: [string, ComponentChildren][] = [
    [say('size'), `${formatBytes(detail.size)} (${formatCount(detail.size)})`],
    [say('requested'), detail.requested_bytes === null || detail.requested_bytes === undefined ? null : formatBytes(detail.requested_bytes)],
    [say('address'), detail.address],
    [say('pool'), detail.pool],
    [say('allocated'), <MomentButton place={detail.begin} axis={axis} />],
    [say('freed'), detail.end && <MomentButton place={detail.end} axis={axis} />],
    [say('life'), lifeOf(detail, axis)],
    [say('first_access'), detail.first_access && <MomentButton place={detail.first_access} axis={axis} />],
    [say('last_access'), detail.last_access && <MomentButton place={detail.last_access} axis={axis} />],
    [say('by_owner'), detail.owner],
    [say('by_operator'), detail.operator],
    [say('by_module'), detail.module],
    [say('by_thread'), detail.thread],
    [say('by_stream'), detail.stream],
    [say('label'), detail.label],
  ];
  return (
    <dl>
      {facts.filter(([, value]) => value !== null && value !== undefined && value !== '').map(([name, value]) => (
        <><dt key={name}>{name}</dt><dd>{value}</dd></>
      ))}
    </dl>
  );
}

function History({ detail }: { detail: BlockDetail }): JSX.Element | null {
  const { earlier, later, count } = detail.history;
  if (count === 0) return null;
  const left = count - earlier.length - later.length;
  return (
    <Part title={say('history', { n: formatCount(count) })}>
      <HistoryList title={say('earlier')} blocks={earlier} />
      <HistoryList title={say('later')} blocks={later} />
      {left > 0 && <p class="quiet">{say('history_more', { n: formatCount(left) })}</p>}
    </Part>
  );
}

function HistoryList({ title, blocks }: { title: string; blocks: HistoryBlock[] }): JSX.Element | null {
  if (blocks.length === 0) return null;
  const axis = mainLens.axis.value;
  return (
    <div class="history">
      <h4>{title}</h4>
      <ul>
        {blocks.map((one) => (
          <li key={one.block}>
            <button type="button" class="plain" data-block={one.block} onClick={() => change({ block: one.block })}>
              {say('block_number', { n: formatCount(one.block) })}
            </button>
            <span>{formatBytes(one.size)}</span>
            <MomentButton place={one.begin} axis={axis} />
          </li>
        ))}
      </ul>
    </div>
  );
}
