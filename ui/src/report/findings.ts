/** Findings: what is known of each call site, its source and its stack. */
import { formatCount } from '../text/numbers';
import { shortSite } from '../text/sites';
import type { Finding, Site, Source } from './data';
import { element, folded, linkTo, report, word } from './page_parts';

const FIRST_SITES = 3;

export function findings(): HTMLElement {
  return element('section', { id: 'findings' }, element('h2', {}, word('findings')), ...report.findings.map(findingOf));
}

function findingOf(finding: Finding): HTMLElement {
  const article = element('article', { class: 'finding', id: finding.id, tabindex: '-1' },
    element('h3', {}, finding.sentence),
    element('p', {}, `${word('next')} `, element('code', {}, finding.command)),
    finding.tables.length === 0 ? null : element('p', { class: 'in-tables' }, word('in_tables'),
      ...finding.tables.flatMap(({ target, text, who }) => [' ', linkTo(target, who ? `${who}: ${text}` : text)])),
    ...finding.sites.slice(0, FIRST_SITES).map(siteOf));
  const rest = finding.sites.slice(FIRST_SITES);
  if (rest.length) article.append(folded(word('other_sites', { n: formatCount(rest.length) }), element('div', {}, ...rest.map(siteOf))));
  if (finding.more_sites) {
    article.append(element('p', { class: 'quiet' }, word('more_sites', { n: formatCount(finding.more_sites) })));
  }
  return article;
}

function siteOf(site: Site): HTMLElement {
  const card = element('section', { class: 'found-site', id: site.id },
    element('h4', {}, site.label || word('call_site_unknown')),
    element('dl', {}, ...site.facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])));
  if (site.source === null) card.append(element('p', { class: 'quiet' }, word('no_source')));
  else card.append(mainSource(site.source, word('source_of', { site: shortSite(site.label) }), 'site'));
  if (site.holder) {
    card.append(mainSource(site.holder.source, word('source_of_holder', { site: shortSite(site.holder.label) }), 'holder'));
  }
  if (site.frames.length) card.append(stackOf(site));
  if (site.native.length) {
    const frames = site.native.map((text) => element('li', {}, text));
    card.append(folded(word('native_stack', { n: site.native.length + site.more_native }),
      element('ol', { class: 'frames' }, ...frames, ...moreFrames(site.more_native))));
  }
  return card;
}

function stackOf(site: Site): HTMLElement {
  const frames = site.frames.map((frame) => element('li',
    { class: [frame.is_foreign ? 'foreign' : '', frame.is_blamed ? 'blamed' : ''].join(' ').trim() },
    frame.source === null ? frame.text : laterSource(frame.source, frame.text)));
  return folded(word('full_stack', { n: site.frames.length + site.more_frames }),
    element('ol', { class: 'frames' }, ...frames, ...moreFrames(site.more_frames)));
}

function moreFrames(count: number): HTMLElement[] {
  return count ? [element('li', { class: 'foreign' }, word('more_frames', { n: formatCount(count) }))] : [];
}

/** An excerpt of source that opens at a click; `name` tells those of a card apart. */
function mainSource(number: number, title: string, name: string): HTMLElement {
  return folded(title, excerptOf(report.sources[number]!), { class: 'source', 'data-source': name });
}

/** One that is made when it is first opened, as stacks have very many. */
function laterSource(number: number, title: string): HTMLElement {
  const made = element('details', { class: 'source' }, element('summary', {}, title));
  made.addEventListener('toggle', () => made.append(excerptOf(report.sources[number]!)), { once: true });
  return made;
}

function excerptOf(source: Source): HTMLElement {
  const box = element('div', {}, element('div', { class: 'quiet file' }, `${source.file}(${source.line})`));
  if (source.note) box.append(element('p', { class: 'quiet' }, source.note));
  if (source.lines.length) {
    box.append(element('pre', { class: 'excerpt' }, ...source.lines.map((line, place) => {
      const number = source.first_line + place;
      const isBlamed = number === source.line;
      return element('div', { class: isBlamed ? 'blamed' : null, 'aria-current': isBlamed ? 'true' : null },
        element('span', { class: 'number' }, String(number)), line);
    })));
  }
  return box;
}
