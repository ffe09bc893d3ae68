/** The verdicts, before everything else: each leads to its table of findings and to the lines of source. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { SourceButton } from '../parts/source';
import { jsonAnswer, useAnswer } from '../protocol/answer';
import type { Verdict } from '../protocol/types';
import { chooseProcess, mainLens } from '../state/lens';
import { language } from '../state/preferences';
import { change } from '../state/store';
import { formatCount } from '../text/numbers';
import { say } from '../words/say';

const FIRST = 3;
const RANKS = { bad: 0, warning: 1, good: 2, note: 3 } as const;

export function Verdicts(): JSX.Element | null {
  const [isOpen, setOpen] = useState(false);
  const answer = useAnswer(() => jsonAnswer<Verdict[]>(() => ({ path: 'verdicts', parameters: { language: language.value } })));
  const verdicts = [...(answer.value.value ?? [])].sort((one, other) => RANKS[one.severity] - RANKS[other.severity]);
  const shown = isOpen ? verdicts : verdicts.slice(0, FIRST);
  const hidden = verdicts.length - shown.length;
  if (verdicts.length === 0) return null;
  return (
    <section class="verdicts" data-verdicts aria-label={say('in_short')}>
      <ul>{shown.map((verdict, number) => <Sentence key={number} verdict={verdict} number={number} />)}</ul>
      {(hidden > 0 || isOpen) && verdicts.length > FIRST && (
        <button type="button" class="plain more" data-action="more-verdicts" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? say('fewer') : say('more_verdicts', { n: formatCount(hidden) })}
        </button>
      )}
    </section>
  );
}

const SIGNS = { bad: '●', warning: '▲', good: '✓', note: '·' } as const;

function Sentence({ verdict, number }: { verdict: Verdict; number: number }): JSX.Element {
  const open = (table: string | null): void => {
    if (verdict.process !== mainLens.process.value?.process) chooseProcess(verdict.process);
    change({ view: 'findings', finding: table ?? '' });
  };
  const first = verdict.links[0]?.table ?? null;
  return (
    <li class={`verdict ${verdict.severity}`} data-verdict={number}>
      <span class="sign" aria-label={say(`severity_${verdict.severity}`)} role="img">{SIGNS[verdict.severity]}</span>
      <span class="words">
        <button type="button" class="plain sentence" title={verdict.detail ?? say('open_findings')} onClick={() => open(first)}>{verdict.text}</button>
        {verdict.links.map((link, place) => (
          link.site
            ? <SourceButton key={place} site={link.site} process={verdict.process} />
            : <button type="button" class="plain site" key={place} onClick={() => open(link.table)}>{link.text}</button>
        ))}
      </span>
    </li>
  );
}
