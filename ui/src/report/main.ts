/** Shows the data of the report: what was found first, then each process. */
import { formatCount } from '../text/numbers';
import type { Answer, Link, Process } from './data';
import { findings } from './findings';
import { memoryOf } from './memory';
import { drawAll, element, linkTo, report, showTarget, word } from './page_parts';
import './report.css';
import { tableOf } from './table';

const THEMES = ['auto', 'light', 'dark'];
const MOST_TITLES = 3;

function header(): HTMLElement {
  const choice = element('select', { id: 'theme' }, ...THEMES.map((theme) => element('option', { value: theme }, word(`theme_${theme}`))));
  choice.addEventListener('change', () => document.documentElement.setAttribute('data-theme', choice.value));
  return element('header', {},
    element('h1', {}, word('title')),
    element('span', { class: 'meta' }, report.processes.map((part) => part.title).slice(0, MOST_TITLES).join(' · ')),
    element('label', { for: 'theme' }, word('theme')), choice);
}

function inShort(): HTMLElement {
  const line = (one: Link, name: string | null): HTMLElement => element('li', { class: name }, linkTo(one.target, one.text));
  return element('section', { 'aria-label': word('in_short') },
    element('ul', { class: 'verdicts' }, ...report.verdicts.map((one) => line(one, one.kind === 'nothing' ? 'nothing' : 'found'))),
    element('ul', { class: 'facts' }, ...report.facts.map((one) => line(one, null))));
}

function contents(): HTMLElement {
  return element('nav', { class: 'contents', 'aria-label': word('contents') },
    report.findings.length ? linkTo('findings', word('findings')) : null,
    ...report.processes.flatMap((part) => [
      linkTo(part.id, part.name || word('memory_over_time')),
      ...part.memory.map((pool) => linkTo(pool.id, `${pool.device} ${pool.pool}`, 'inner')),
      ...part.answers.map((answer) => linkTo(answer.id, answer.title, 'inner')),
    ]));
}

function processOf(part: Process): HTMLElement {
  const section = element('section', { id: part.id }, element('h2', {}, part.title), ...part.memory.map(memoryOf), ...part.answers.map(answerOf));
  if (part.limits.length) {
    section.append(element('h3', {}, word('limits')),
      element('ul', { class: 'quiet' }, ...part.limits.map((line) => element('li', {}, line))));
  }
  return section;
}

function answerOf(answer: Answer): HTMLElement {
  return element('section', { id: answer.id }, element('h3', {}, answer.title), element('p', { class: 'quiet' }, answer.summary),
    ...answer.missing.map((line) => element('p', {}, `${word('not_answered')} ${line}`)),
    answer.missing.length || answer.tables.length ? null : element('p', {}, word('nothing_here')),
    ...answer.tables.map((table) => tableOf(table)));
}

document.body.append(
  linkTo('findings', word('skip'), 'skip'), header(),
  element('main', { id: 'main' }, inShort(), contents(), report.findings.length ? findings() : null, ...report.processes.map(processOf),
    report.more_processes ? element('p', { class: 'quiet' }, word('processes_more', { n: formatCount(report.more_processes) })) : null),
  element('footer', {}, element('p', {}, word('made_by', { version: report.version, source: report.source }))));
drawAll();
window.addEventListener('resize', () => requestAnimationFrame(drawAll));
window.addEventListener('hashchange', showTarget);
// The target of an address was not there yet when the browser looked for it.
showTarget();
