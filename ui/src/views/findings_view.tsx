/** Everything that the analyses found, question by question. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { SourceButton } from '../parts/source';
import { Trouble, Waiting } from '../parts/status';
import { jsonAnswer, useAnswer } from '../protocol/answer';
import type { Finding } from '../protocol/types';
import { mainLens } from '../state/lens';
import { language } from '../state/preferences';
import { store } from '../state/store';
import { formatCell, formatCount } from '../text/numbers';
import { shortSite } from '../text/sites';
import { say } from '../words/say';

const FIRST_ROWS = 200;
const NUMBER_KINDS = new Set(['bytes', 'count', 'time', 'percent', 'row']);

export function FindingsView(): JSX.Element {
  const answer = useAnswer(() => jsonAnswer<Finding[]>(() => {
    const process = mainLens.process.value;
    return process && { path: 'findings', parameters: { process: process.process, language: language.value } };
  }));
  const findings = answer.value.value ?? [];
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!store.finding.value) return;
    list.current?.querySelector(`[data-question="${CSS.escape(store.finding.value)}"]`)?.scrollIntoView({ block: 'start' });
  }, [store.finding.value, answer.value.value]);
  return (
    <section class="view" data-view="findings" aria-label={say('view_findings')}>
      <div class="view-head">
        <nav class="crumbs" aria-label={say('questions')}>
          {findings.map((one) => (
            <button type="button" key={one.question} aria-pressed={store.finding.value === one.question} onClick={() => { store.finding.value = one.question; }}>
              {one.title}
            </button>
          ))}
        </nav>
        <span class="spring" />
        <Waiting answer={answer} />
      </div>
      <Trouble answer={answer} />
      <div class="scrolled grow" ref={list}>
        {answer.value.value && findings.length === 0 && <p class="quiet empty">{say('no_findings')}</p>}
        {findings.map((finding) => (
          <article key={finding.question} class="finding" data-question={finding.question}>
            <h2>{finding.title}</h2>
            {finding.summary && <p class="quiet">{finding.summary}</p>}
            {finding.tables.length === 0 && <p>{say('nothing_found')}</p>}
            {finding.missing?.map((text) => <p class="quiet" key={text}>{text}</p>)}
            {finding.tables.map((table, number) => <FindingTable key={`${number}${table.title}`} table={table} />)}
          </article>
        ))}
      </div>
    </section>
  );
}

function FindingTable({ table }: { table: Finding['tables'][number] }): JSX.Element {
  const [most, setMost] = useState(FIRST_ROWS);
  // Where a column shows the call sites, they lead to the source from there.
  const hasSites = table.sites.some((site) => site !== null) && !table.columns.some((column) => column.kind === 'site');
  const hidden = table.rows.length - most;
  return (
    <div class="finding-table">
      <h3>{table.title}</h3>
      {table.note && <p class="quiet">{table.note}</p>}
      {table.rows.length > 0 && (
        <table>
          <thead>
            <tr>
              {table.columns.map((column) => <th key={column.label} scope="col" class={NUMBER_KINDS.has(column.kind) ? 'number' : ''}>{column.label}</th>)}
              {hasSites && <th scope="col">{say('source')}</th>}
            </tr>
          </thead>
          <tbody>
            {table.rows.slice(0, most).map((row, number) => (
              <tr key={number} data-row={number}>
                {table.columns.map((column, place) => {
                  const text = formatCell(row[place], column.kind);
                  const site = column.kind === 'site' ? (table.sites[number] ?? null) : null;
                  if (site) return <td key={column.label} class="text"><SourceButton site={site} /></td>;
                  return <td key={column.label} class={NUMBER_KINDS.has(column.kind) ? 'number' : 'text'} title={text}>{shortSite(text)}</td>;
                })}
                {hasSites && <td class="text">{table.sites[number] ? <SourceButton site={table.sites[number]} /> : null}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {hidden > 0 && <button type="button" onClick={() => setMost(most + 1000)}>{say('more_rows', { n: formatCount(hidden) })}</button>}
      {table.more > 0 && <p class="quiet">{say('rows_not_sent', { n: formatCount(table.more) })}</p>}
    </div>
  );
}
