/** Source lines: where they are named, and the lines themselves. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { jsonAnswer, useAnswer } from '../protocol/answer';
import type { SourceExcerpt, StackFrame } from '../protocol/types';
import { mainLens } from '../state/lens';
import { change } from '../state/store';
import { isSite, shortSite } from '../text/sites';
import { say } from '../words/say';
import { Trouble } from './status';

/** A call site that opens its source in the panel. */
export function SourceButton({ site, process }: { site: string; process?: number }): JSX.Element {
  const isOther = process !== undefined && process !== mainLens.process.value?.process;
  return (
    <button
      type="button" class="plain site" data-site={site} title={site}
      onClick={() => change({ site, ...(isOther ? { process, pool: 0, window: null, range: null, row: null, block: null } : {}) })}
    >
      {shortSite(site)}
    </button>
  );
}

/** The lines around a call site. */
export function Excerpt({ site }: { site: string }): JSX.Element {
  const wanted = useMemo(() => signal(site), []);
  useEffect(() => { wanted.value = site; }, [site]);
  const answer = useAnswer(() => jsonAnswer<SourceExcerpt>(() => {
    const process = mainLens.process.value;
    return process && { path: 'source', parameters: { process: process.process, site: wanted.value } };
  }));
  const source = answer.value.value;
  return (
    <div class="excerpt-box" data-source={site}>
      <Trouble answer={answer} />
      {source && (
        <>
          <div class="file" title={source.file}>{source.file}:{source.line}</div>
          {source.note && <p class="quiet">{source.note}</p>}
          {source.lines.length > 0 && (
            <div class="excerpt" tabIndex={0} role="region" aria-label={say('source_of', { site: shortSite(site) })}>
              {source.lines.map((text, place) => {
                const number = source.first_line + place;
                return (
                  <div key={number} class={number === source.line ? 'blamed' : ''}>
                    <span class="number">{number}</span>{text || ' '}
                  </div>
                );
              })}
            </div>
          )}
        </>
      )}
    </div>
  );
}

/** A stack; the innermost frame of the program is open. */
export function Stack({ frames }: { frames: StackFrame[] }): JSX.Element {
  const first = frames.findIndex((frame) => frame.is_program);
  return (
    <ol class="frames">
      {frames.map((frame, number) => <FrameLine key={`${number}${frame.text}`} frame={frame} isOpen={number === first} />)}
    </ol>
  );
}

function FrameLine({ frame, isOpen }: { frame: StackFrame; isOpen: boolean }): JSX.Element {
  const [open, setOpen] = useState(isOpen);
  const name = frame.is_program ? '' : 'foreign';
  if (!isSite(frame.text)) return <li class={name}>{frame.text}</li>;
  return (
    <li class={name}>
      <button type="button" class="plain" aria-expanded={open} title={frame.text} onClick={() => setOpen(!open)}>
        {open ? '▾' : '▸'} {shortSite(frame.text)}
      </button>
      {open && <Excerpt site={frame.text} />}
    </li>
  );
}
