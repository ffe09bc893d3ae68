'use strict';
/* Shows the data of the report. Every text that comes from data is put in as text: nothing here parses markup, sets inline
   handlers or follows an address. Functions above `Page` are pure, and are tested by themselves. */

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
const SERIES = 8;
const FIRST_SITES = 3;

/** Rounds as Python does: a value in the middle goes to the even neighbour. */
function rounded(number, decimals) {
  const scaled = number * 10 ** decimals;
  const below = Math.floor(scaled);
  const rest = scaled - below;
  const whole = rest === 0.5 ? below + (below % 2) : Math.round(scaled);
  return (whole / 10 ** decimals).toFixed(decimals);
}

/** The same text as units.format_bytes. */
function formatBytes(size) {
  const magnitude = Math.abs(size);
  const sign = size < 0 ? '-' : '';
  if (magnitude < 1024) return `${sign}${magnitude} ${magnitude === 1 ? 'byte' : 'bytes'}`;
  let exponent = 1;
  while (exponent < UNITS.length - 1 && magnitude >= 1024 ** (exponent + 1)) exponent += 1;
  let text = threeDigits(magnitude / 1024 ** exponent);
  if (text === '1024' && exponent < UNITS.length - 1) {
    exponent += 1;
    text = '1.00';
  }
  return `${sign}${text} ${UNITS[exponent]}`;
}

function threeDigits(number) {
  for (const [decimals, limit] of [[2, 10], [1, 100]]) {
    const text = rounded(number, decimals);
    if (Number(text) < limit) return text;
  }
  return rounded(number, 0);
}

function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

function formatPercent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** A moment on the axis: seconds where it is a time, a number of an event elsewhere. */
function formatMoment(moment, isTime) {
  if (!isTime) return formatCount(Math.round(moment));
  const seconds = moment / 1e9;
  if (seconds >= 120) return `${Math.floor(seconds / 60)} min ${(seconds % 60).toFixed(1)} s`;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(2)} ms` : `${(seconds * 1e6).toFixed(1)} µs`;
}

/** Steps of 1, 2 or 5 times a power of ten, at most `most` of them up to an end. */
function decimalTicks(end, most) {
  if (!(end > 0)) return [0];
  const raw = end / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, number) => number * step);
}

/** Steps that are powers of two, so that labels in binary units are round. */
function binaryTicks(end, most) {
  let step = 1;
  while (end / step > most) step *= 2;
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, number) => number * step);
}

/** Rectangles whose areas are as the sizes, as square as can be; in a field of width and height 1 times the given ratio.
    Returns {left, top, width, height} in shares of the field, in the order of the sizes, which descend. */
function treemapLayout(sizes, ratio) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const rectangles = [];
  let field = { left: 0, top: 0, width: ratio, height: 1 };
  let scale = total > 0 ? ratio / total : 0;
  let next = 0;
  while (next < sizes.length && scale > 0) {
    const side = Math.min(field.width, field.height);
    let row = [sizes[next] * scale];
    while (next + row.length < sizes.length) {
      const longer = [...row, sizes[next + row.length] * scale];
      if (worstShape(longer, side) > worstShape(row, side)) break;
      row = longer;
    }
    const area = row.reduce((sum, part) => sum + part, 0);
    const depth = side > 0 ? area / side : 0;
    let along = 0;
    for (const part of row) {
      const length = depth > 0 ? part / depth : 0;
      const isUpright = field.width >= field.height;
      rectangles.push(isUpright
        ? { left: field.left / ratio, top: field.top + along, width: depth / ratio, height: length }
        : { left: (field.left + along) / ratio, top: field.top, width: length / ratio, height: depth });
      along += length;
    }
    field = field.width >= field.height
      ? { ...field, left: field.left + depth, width: Math.max(field.width - depth, 0) }
      : { ...field, top: field.top + depth, height: Math.max(field.height - depth, 0) };
    next += row.length;
  }
  return rectangles;
}

/** How far the worst rectangle of a row is from a square: 1 is one. */
function worstShape(areas, side) {
  const sum = areas.reduce((total, area) => total + area, 0);
  if (!(sum > 0) || !(side > 0)) return Infinity;
  const depth = sum / side;
  return Math.max(...areas.map((area) => (area > 0 ? Math.max(depth * depth / area, area / (depth * depth)) : Infinity)));
}

/** The children of each node of a tree, the largest first. */
function childrenOf(tree) {
  const children = tree.names.map(() => []);
  for (let node = 1; node < tree.names.length; node += 1) children[tree.parents[node]].push(node);
  for (const list of children) list.sort((one, other) => tree.size_bytes[other] - tree.size_bytes[one]);
  return children;
}

/** Where the nodes of a tree are drawn when one of them fills the width: {node, depth, left, width}, in shares. */
function icicleLayout(tree, children, zoomed, leastWidth) {
  const above = [];
  for (let node = zoomed; node !== 0; node = tree.parents[node]) above.unshift(tree.parents[node]);
  const placed = above.map((node, depth) => ({ node, depth, left: 0, width: 1 }));
  const waiting = [{ node: zoomed, depth: above.length, left: 0, width: 1 }];
  while (waiting.length) {
    const place = waiting.pop();
    placed.push(place);
    const whole = tree.size_bytes[place.node];
    let left = place.left;
    for (const child of children[place.node]) {
      const width = whole > 0 ? place.width * tree.size_bytes[child] / whole : 0;
      if (width >= leastWidth) waiting.push({ node: child, depth: place.depth + 1, left, width });
      left += width;
    }
  }
  return placed;
}

/** A frame as there is room for it: the function first, then its file without folders. */
function shortFrame(text) {
  const match = /^(?:.*\/)?([^/(]+)\((\d+)\)(?:: (.*))?$/.exec(text);
  if (!match) return text;
  return match[3] ? `${match[3]} · ${match[1]}:${match[2]}` : `${match[1]}:${match[2]}`;
}

/** A call site with the last two of its folders. */
function shortSite(text) {
  const match = /^\/(?:[^/(]+\/)*?((?:[^/(]+\/){0,2}[^/(]+\(\d+\).*)$/.exec(text);
  return match && match[1].length < text.length - 1 ? `…/${match[1]}` : text;
}

/** Row numbers in the order of one column; rows without a value come last whichever way it goes. */
function sortedRows(rows, column, isDescending) {
  const order = rows.map((_, number) => number);
  const direction = isDescending ? -1 : 1;
  return order.sort((one, other) => {
    const first = rows[one][column];
    const second = rows[other][column];
    if (first === null || second === null) return (first === null) - (second === null) || one - other;
    if (first === second) return one - other;
    return first < second ? -direction : direction;
  });
}

/** The outline of values over columns as a path with steps: columns are `width` wide. */
function stepPath(values, left, width, heightOf) {
  const parts = [];
  let isOpen = false;
  values.forEach((value, column) => {
    if (value < 0) {
      isOpen = false;
      return;
    }
    const from = (left + column * width).toFixed(2);
    const to = (left + (column + 1) * width).toFixed(2);
    const height = heightOf(value).toFixed(2);
    parts.push(isOpen ? `V${height}H${to}` : `M${from} ${height}H${to}`);
    isOpen = true;
  });
  return parts.join('');
}

/** The area between two such outlines. */
function areaPath(lower, upper, left, width, heightOf) {
  const back = [];
  for (let column = lower.length - 1; column >= 0; column -= 1) {
    back.push(`V${heightOf(lower[column]).toFixed(2)}H${(left + column * width).toFixed(2)}`);
  }
  return `${stepPath(upper, left, width, heightOf)}${back.join('')}Z`;
}

const NUMBER_KINDS = new Set(['bytes', 'count', 'percent']);

function cellText(value, kind) {
  if (value === null) return '';
  if (kind === 'bytes') return formatBytes(value);
  if (kind === 'count') return formatCount(value);
  if (kind === 'percent') return formatPercent(value);
  return kind === 'site' ? shortSite(value) : value;
}

/* ---- the page ------------------------------------------------------------------------------------------------------ */

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an element; children that are strings become text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Page {
  constructor(data) {
    this.data = data;
    this.beforePrint = [];
    this.onResize = [];
  }

  word(key, values = {}) {
    return this.data.words[key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  show() {
    const { data } = this;
    const main = element('main', { id: 'main' });
    document.body.append(
      element('a', { class: 'skip', href: '#findings' }, this.word('skip')),
      this.header(), main,
      element('footer', {}, element('p', {}, this.word('made_by', { version: data.version, source: data.source }))),
    );
    main.append(this.inShort(), this.contents());
    if (data.findings.length) main.append(this.findings());
    for (const part of data.processes) main.append(this.process(part));
    if (data.more_processes) {
      main.append(element('p', { class: 'quiet' }, this.word('processes_more', { n: formatCount(data.more_processes) })));
    }
    for (const draw of this.onResize) draw();
    window.addEventListener('resize', () => requestAnimationFrame(() => this.onResize.forEach((draw) => draw())));
    window.addEventListener('beforeprint', () => this.beforePrint.forEach((prepare) => prepare()));
    // The target of an address was not there yet when the browser looked for it.
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) target.scrollIntoView();
  }

  header() {
    const themes = ['auto', 'light', 'dark'];
    const choice = element('select', { id: 'theme' }, ...themes.map(
      (theme) => element('option', { value: theme }, this.word(`theme_${theme}`)),
    ));
    choice.addEventListener('change', () => document.documentElement.setAttribute('data-theme', choice.value));
    return element('header', {},
      element('h1', {}, this.word('title')),
      element('span', { class: 'meta' }, this.data.processes.map((part) => part.title).slice(0, 3).join(' · ')),
      element('label', { for: 'theme' }, this.word('theme')), choice);
  }

  inShort() {
    const { verdicts, facts } = this.data;
    return element('section', { 'aria-label': this.word('in_short') },
      element('ul', { class: 'verdicts' }, ...verdicts.map((one) => element(
        'li', { class: one.kind === 'nothing' ? 'nothing' : 'found' },
        element('a', { href: `#${one.target}` }, one.text),
      ))),
      element('ul', { class: 'facts' }, ...facts.map(
        (one) => element('li', {}, element('a', { href: `#${one.target}` }, one.text)),
      )));
  }

  contents() {
    const links = this.data.findings.length ? [['findings', this.word('findings'), '']] : [];
    for (const part of this.data.processes) {
      links.push([part.id, part.name || this.word('memory_over_time'), '']);
      for (const pool of part.memory) links.push([pool.id, `${pool.device} ${pool.pool}`, 'inner']);
      for (const answer of part.answers) links.push([answer.id, answer.title, 'inner']);
    }
    return element('nav', { class: 'contents', 'aria-label': this.word('contents') },
      ...links.map(([id, text, name]) => element('a', { href: `#${id}`, class: name }, text)));
  }

  /* -- findings -- */

  findings() {
    return element('section', { id: 'findings' }, element('h2', {}, this.word('findings')),
      ...this.data.findings.map((finding) => this.finding(finding)));
  }

  finding(finding) {
    const article = element('article', { class: 'finding', id: finding.id, tabindex: '-1' },
      element('h3', {}, finding.sentence),
      element('p', {}, `${this.word('next')} `, element('code', {}, finding.command)),
      ...finding.sites.slice(0, FIRST_SITES).map((site) => this.site(site)));
    const rest = finding.sites.slice(FIRST_SITES);
    if (rest.length) {
      article.append(this.folded(this.word('other_sites', { n: formatCount(rest.length) }),
        element('div', {}, ...rest.map((site) => this.site(site)))));
    }
    if (finding.more_sites) {
      article.append(element('p', { class: 'quiet' }, this.word('more_sites', { n: formatCount(finding.more_sites) })));
    }
    return article;
  }

  site(site) {
    const card = element('section', { class: 'found-site' },
      element('h4', {}, site.label || this.word('call_site_unknown')),
      element('dl', {}, ...site.facts.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)])));
    if (site.source === null) card.append(element('p', { class: 'quiet' }, this.word('no_source')));
    else card.append(this.source(site.source, this.word('source_of', { site: shortSite(site.label) }), 'site'));
    if (site.holder) card.append(this.source(site.holder.source, this.word('source_of_holder', { site: shortSite(site.holder.label) }), 'holder'));
    if (site.frames.length) card.append(this.stack(site));
    if (site.native.length) {
      const frames = site.native.map((text) => element('li', {}, text));
      card.append(this.folded(this.word('native_stack', { n: site.native.length + site.more_native }),
        element('ol', { class: 'frames' }, ...frames, ...this.moreFrames(site.more_native))));
    }
    return card;
  }

  stack(site) {
    const frames = site.frames.map((frame) => {
      const names = [frame.is_foreign ? 'foreign' : '', frame.is_blamed ? 'blamed' : ''].join(' ').trim();
      const isShown = frame.source !== null;
      return element('li', { class: names }, isShown ? this.source(frame.source, frame.text) : frame.text);
    });
    return this.folded(this.word('full_stack', { n: site.frames.length + site.more_frames }),
      element('ol', { class: 'frames' }, ...frames, ...this.moreFrames(site.more_frames)));
  }

  moreFrames(count) {
    return count ? [element('li', { class: 'foreign' }, this.word('more_frames', { n: formatCount(count) }))] : [];
  }

  folded(title, content) {
    const made = element('details', {}, element('summary', {}, title), content);
    this.beforePrint.push(() => { made.open = true; });
    return made;
  }

  /** An excerpt of source that opens at a click; made when it is first needed, as stacks have very many. */
  source(number, title, name = null) {
    const made = element('details', { class: 'source', 'data-source': name }, element('summary', {}, title));
    let isFilled = false;
    const fill = () => {
      if (!isFilled) made.append(this.excerpt(this.data.sources[number]));
      isFilled = true;
    };
    made.addEventListener('toggle', fill);
    if (name) {
      fill();
      this.beforePrint.push(() => { made.open = true; });
    }
    return made;
  }

  excerpt(source) {
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

  /* -- a process -- */

  process(part) {
    const section = element('section', { id: part.id }, element('h2', {}, part.title));
    for (const pool of part.memory) section.append(this.memory(pool));
    for (const answer of part.answers) section.append(this.answer(answer));
    if (part.limits.length) {
      section.append(element('h3', {}, this.word('limits')),
        element('ul', { class: 'quiet' }, ...part.limits.map((line) => element('li', {}, line))));
    }
    return section;
  }

  answer(answer) {
    const section = element('section', { id: answer.id }, element('h3', {}, answer.title),
      element('p', { class: 'quiet' }, answer.summary));
    for (const line of answer.missing) section.append(element('p', {}, `${this.word('not_answered')} ${line}`));
    if (!answer.missing.length && !answer.tables.length) section.append(element('p', {}, this.word('nothing_here')));
    for (const table of answer.tables) section.append(this.table(table));
    return section;
  }

  memory(pool) {
    const named = pool.chart.owners.filter((owner) => !owner.is_rest);
    const colours = new Map(named.map((owner, number) => [owner.name, number]));
    const colourOf = (name) => `series-${Math.min(colours.get(name) ?? SERIES - 1, SERIES - 1)}`;
    const section = element('section', { id: pool.id }, element('h3', {}, `${pool.device} ${pool.pool}`),
      this.chart(pool, colourOf));
    section.append(element('h4', {}, this.word('owners_at_peak')), this.treemap(pool, colourOf));
    section.append(element('h4', {}, this.word('by_stack')), this.trees(pool));
    for (const table of pool.tables) section.append(this.table(table, 10));
    return section;
  }

  chart(pool, colourOf) {
    const box = element('div', { class: 'picture' });
    const readout = element('p', { class: 'readout', 'aria-live': 'polite' });
    const legend = element('ul', { class: 'legend' });
    const chart = new Chart(this, pool, colourOf, { box, readout, legend });
    this.onResize.push(() => chart.draw());
    const notes = [this.word('chart_help')];
    const { marks, failures } = pool.chart;
    if (marks.more) notes.push(this.word('more_marks', { n: formatCount(marks.more) }));
    if (failures.more) notes.push(this.word('more_failures', { n: formatCount(failures.more) }));
    return element('div', {}, box, readout, legend, element('p', { class: 'quiet help' }, notes.join(' ')));
  }

  treemap(pool, colourOf) {
    const name = pool.owners.length > 2 ? 'treemap' : 'treemap low';
    const box = element('div', { class: name, role: 'img', 'aria-label': this.word('owners_at_peak') });
    const whole = pool.chart.peak.bytes;
    const draw = () => {
      const ratio = (box.clientWidth || 1000) / (box.clientHeight || 240);
      const places = treemapLayout(pool.owners.map(([, size]) => size), ratio);
      box.replaceChildren(...places.map((place, number) => {
        const [name, size, blocks] = pool.owners[number];
        const text = `${name}: ${formatBytes(size)}, ${formatPercent(size / whole)}, ${this.blocks(blocks)}`;
        const field = element('div', { class: colourOf(name), title: text });
        if (place.width > 0.05 && place.height > 0.1) {
          field.append(name, element('br'), `${formatBytes(size)} · ${formatPercent(size / whole)}`);
        }
        for (const side of ['left', 'top', 'width', 'height']) field.style[side] = `${100 * place[side]}%`;
        return field;
      }));
    };
    this.onResize.push(draw);
    return box;
  }

  blocks(count) {
    return count === 1 ? this.word('block') : this.word('blocks', { n: formatCount(count) });
  }

  trees(pool) {
    const box = element('div', {});
    const tools = element('div', { class: 'tools' });
    const readout = element('p', { class: 'readout', 'aria-live': 'polite' });
    const sheet = element('div', { class: 'icicle' });
    const kinds = Object.keys(pool.trees);
    const view = new Icicle(this, sheet, readout);
    const buttons = kinds.map((kind) => {
      const button = element('button', { type: 'button' }, this.word(`tree_${kind}`));
      button.addEventListener('click', () => choose(kind));
      return button;
    });
    const choose = (kind) => {
      buttons.forEach((button, number) => button.setAttribute('aria-pressed', String(kinds[number] === kind)));
      view.set(pool.trees[kind]);
    };
    const all = element('button', { type: 'button' }, this.word('zoom_out'));
    all.addEventListener('click', () => view.zoom(0));
    if (kinds.length > 1) tools.append(...buttons);
    tools.append(all, element('span', { class: 'quiet help' }, this.word('tree_help')));
    box.append(tools, sheet, readout);
    choose(kinds[0]);
    return box;
  }

  table(table, first = 20) {
    const box = element('div', {}, element('h4', {}, table.title));
    const body = element('tbody');
    let order = table.rows.map((_, number) => number);
    let isAll = table.rows.length <= first + 3;
    const fill = () => body.replaceChildren(...(isAll ? order : order.slice(0, first)).map(
      (row) => element('tr', {}, ...table.rows[row].map((value, column) => this.cell(value, table.kinds[column]))),
    ));
    const heads = table.headings.map((heading, column) => this.heading(heading, table.kinds[column]));
    heads.forEach(({ head, button }, column) => button.addEventListener('click', () => {
      const isNumber = NUMBER_KINDS.has(table.kinds[column]);
      const before = head.getAttribute('aria-sort');
      const isDescending = before === null ? isNumber : before === 'ascending';
      for (const other of heads) other.head.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', isDescending ? 'descending' : 'ascending');
      order = sortedRows(table.rows, column, isDescending);
      fill();
    }));
    const titles = element('thead', {}, element('tr', {}, ...heads.map(({ head }) => head)));
    box.append(element('div', { class: 'sheet-of-table' }, element('table', {}, titles, body)));
    if (!isAll) {
      const more = element('button', { type: 'button' });
      const name = () => { more.textContent = isAll ? this.word('show_fewer') : this.word('show_all', { n: formatCount(table.rows.length) }); };
      more.addEventListener('click', () => { isAll = !isAll; name(); fill(); });
      name();
      box.append(more);
    }
    if (table.more) box.append(element('p', { class: 'quiet' }, this.word('more_rows', { n: formatCount(table.more) })));
    if (table.note) box.append(element('p', { class: 'quiet' }, table.note));
    fill();
    return box;
  }

  heading(text, kind) {
    const button = element('button', { type: 'button', 'aria-label': `${text}: ${this.word('sort_by', { column: text })}` }, text);
    const head = element('th', { scope: 'col', class: NUMBER_KINDS.has(kind) ? 'number' : null }, button);
    return { head, button };
  }

  cell(value, kind) {
    const name = NUMBER_KINDS.has(kind) ? 'number' : kind;
    return element('td', { class: name, title: kind === 'site' ? value : null }, cellText(value, kind));
  }
}

/* Memory over time: areas of owners upon each other, what is reserved, steps, marks and failures; a cursor says the rest. */
class Chart {
  constructor(page, pool, colourOf, parts) {
    this.page = page;
    this.data = pool.chart;
    this.name = `${pool.device} ${pool.pool}`;
    this.colourOf = colourOf;
    this.parts = parts;
    this.column = this.data.peak.column;
    this.swatches = this.makeLegend();
  }

  /** A line per owner, and one for what is reserved; returns where the values of owners are shown. */
  makeLegend() {
    const add = (name, text) => {
      const value = element('span', {});
      this.parts.legend.append(element('li', {}, element('span', { class: `swatch ${name}` }),
        element('span', { class: 'name', title: text }, text), value));
      return value;
    };
    const values = this.data.owners.map((owner) => add(this.colourOf(owner.name), owner.name));
    this.reservedValue = this.data.reserved ? add('broken', this.page.word('reserved')) : null;
    return values;
  }

  draw() {
    const { data } = this;
    const width = Math.max(this.parts.box.clientWidth || 1000, 320);
    const height = 320;
    this.frame = { left: 74, top: 26, width: width - 74 - 16, height: height - 26 - 44 };
    const top = Math.max(data.peak.bytes, ...(data.reserved ?? [0]));
    this.heightOf = (bytes) => this.frame.top + this.frame.height * (1 - bytes / (top || 1));
    this.columnWidth = this.frame.width / data.most.length;
    const picture = shape('svg', {
      viewBox: `0 0 ${width} ${height}`, role: 'slider', tabindex: '0', 'aria-label': `${this.page.word('memory_over_time')}: ${this.name}`,
      'aria-valuemin': '0', 'aria-valuemax': String(data.most.length - 1), 'aria-valuenow': String(this.column),
    });
    picture.append(...this.axes(top), ...this.areas(), ...this.events(), ...this.peak());
    this.cursor = shape('line', { class: 'cursor', y1: this.frame.top, y2: this.frame.top + this.frame.height });
    picture.append(this.cursor);
    picture.addEventListener('pointermove', (event) => this.point(event, picture));
    picture.addEventListener('keydown', (event) => this.key(event));
    const hadFocus = this.picture !== undefined && document.activeElement === this.picture;
    this.picture = picture;
    this.parts.box.replaceChildren(picture);
    if (hadFocus) picture.focus();
    this.move(this.column);
  }

  x(moment) {
    return this.frame.left + this.frame.width * (this.data.length > 0 ? moment / this.data.length : 0);
  }

  axes(top) {
    const { left, width, height } = this.frame;
    const bottom = this.frame.top + height;
    const made = [];
    for (const tick of binaryTicks(top, 6)) {
      const y = this.heightOf(tick).toFixed(1);
      made.push(shape('line', { class: 'grid', x1: left, x2: left + width, y1: y, y2: y }),
        shape('text', { x: left - 8, y: Number(y) + 4, 'text-anchor': 'end' }, formatBytes(tick)));
    }
    const unit = this.data.is_time ? 1e9 : 1;
    for (const tick of decimalTicks(this.data.length / unit, Math.max(Math.floor(width / 110), 2))) {
      const x = this.x(tick * unit).toFixed(1);
      const text = this.data.is_time ? `${Number(tick.toPrecision(6))} s` : formatCount(Math.round(tick));
      made.push(shape('line', { class: 'grid', x1: x, x2: x, y1: bottom, y2: bottom + 5 }),
        shape('text', { x, y: bottom + 18, 'text-anchor': 'middle' }, text));
    }
    return made;
  }

  areas() {
    const { data } = this;
    const made = [];
    let below = data.most.map(() => 0);
    for (const owner of data.owners) {
      const above = below.map((value, column) => value + owner.bytes[column]);
      const path = areaPath(below, above, this.frame.left, this.columnWidth, this.heightOf);
      made.push(shape('path', { class: this.colourOf(owner.name), d: path }));
      below = above;
    }
    const line = (values, name) => shape('path', { class: name, d: stepPath(values, this.frame.left, this.columnWidth, this.heightOf) });
    made.push(line(data.least, 'least'), line(data.most, 'outline'));
    if (data.reserved) made.push(line(data.reserved, 'reserved'));
    return made;
  }

  events() {
    const { steps, marks, failures } = this.data;
    const { top, height } = this.frame;
    const bottom = top + height;
    const lines = shape('g', { class: 'steps' });
    let freeLine = -Infinity;
    let freeText = -Infinity;
    steps.moments.forEach((moment, number) => {
      const x = this.x(moment);
      if (x >= freeLine) {
        lines.append(shape('line', { x1: x, x2: x, y1: top, y2: bottom }));
        freeLine = x + 9;
      }
      if (x < freeText || x > this.frame.left + this.frame.width - 50) return;
      lines.append(shape('text', { x: x + 2, y: bottom + 34 }, `${this.page.word('step')} ${steps.numbers[number]}`));
      freeText = x + 70;
    });
    const flags = marks.moments.map((moment, number) => {
      const x = this.x(moment);
      return shape('path', { class: 'mark', d: `M${x} ${top}l-4 -7h8z` },
        shape('title', {}, `${this.page.word('mark')}: ${marks.names[number]}`));
    });
    const crosses = failures.moments.map((moment, number) => {
      const x = this.x(moment);
      return shape('path', { class: 'failure', d: `M${x} ${top}V${bottom}M${x - 5} ${top}l10 10m0 -10l-10 10` },
        shape('title', {}, `${this.page.word('failed')}: ${formatBytes(failures.bytes[number])}`));
    });
    return [lines, ...flags, ...crosses];
  }

  peak() {
    const { peak } = this.data;
    const x = this.frame.left + (peak.column + 0.5) * this.columnWidth;
    const y = this.heightOf(peak.bytes);
    const isRight = x > this.frame.left + this.frame.width / 2;
    const text = `${this.page.word('peak')} ${formatBytes(peak.bytes)}`;
    return [shape('circle', { class: 'peak-dot', cx: x, cy: y, r: 4.5 }),
      shape('text', { class: 'peak', x: isRight ? x - 8 : x + 8, y: y - 8, 'text-anchor': isRight ? 'end' : 'start' }, text)];
  }

  point(event, picture) {
    const bounds = picture.getBoundingClientRect();
    const x = (event.clientX - bounds.left) * (picture.viewBox.baseVal.width / bounds.width);
    this.move(Math.floor((x - this.frame.left) / this.columnWidth));
  }

  key(event) {
    const last = this.data.most.length - 1;
    const stride = event.shiftKey ? Math.max(Math.round(last / 50), 1) : 1;
    const places = {
      ArrowLeft: this.column - stride, ArrowRight: this.column + stride, ArrowDown: this.column - stride,
      ArrowUp: this.column + stride, Home: 0, End: last, PageDown: this.column - Math.ceil(last / 10),
      PageUp: this.column + Math.ceil(last / 10), p: this.data.peak.column,
    };
    if (!(event.key in places) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.move(places[event.key]);
  }

  /** Puts the cursor on a column, and says what was in use then. */
  move(column) {
    const { data, page } = this;
    this.column = Math.min(Math.max(column, 0), data.most.length - 1);
    const place = this.column;
    const x = (this.frame.left + (place + 0.5) * this.columnWidth).toFixed(2);
    this.cursor.setAttribute('x1', x);
    this.cursor.setAttribute('x2', x);
    const most = data.most[place];
    const parts = [
      `${page.word(data.is_time ? 'time' : 'event')} ${formatMoment(data.moments[place], data.is_time)}`,
      data.step ? `${page.word('step')} ${formatCount(data.step[place])}` : '',
      `${page.word('in_use')} ${formatBytes(most)} (${formatCount(most)})`,
      `${page.word('least')} ${formatBytes(data.least[place])}`,
      data.reserved && data.reserved[place] >= 0 ? `${page.word('reserved')} ${formatBytes(data.reserved[place])}` : '',
    ];
    const text = parts.filter(Boolean).join(' · ');
    this.parts.readout.textContent = text;
    if (this.reservedValue) {
      this.reservedValue.textContent = data.reserved[place] >= 0 ? formatBytes(data.reserved[place]) : '';
    }
    this.picture.setAttribute('aria-valuenow', String(place));
    this.picture.setAttribute('aria-valuetext', text);
    this.swatches.forEach((value, number) => {
      const bytes = data.owners[number].bytes[place];
      value.textContent = `${formatBytes(bytes)}${most > 0 ? ` · ${formatPercent(bytes / most)}` : ''}`;
    });
  }
}

/* Blocks by call stack: the whole on top, below each frame what it called. Only one node can be reached by Tab; arrow keys
   walk from there, as a stack has more nodes than anybody wants to pass. */
class Icicle {
  constructor(page, box, readout) {
    this.page = page;
    this.box = box;
    this.readout = readout;
    box.addEventListener('click', (event) => this.onClick(event));
    box.addEventListener('keydown', (event) => this.onKey(event));
    box.addEventListener('pointerover', (event) => this.tell(this.nodeOf(event.target)));
    box.addEventListener('focusin', (event) => this.tell(this.nodeOf(event.target)));
  }

  set(content) {
    const tree = { ...content, names: content.names.map((label) => content.labels[label]) };
    this.tree = tree;
    this.children = childrenOf(tree);
    this.zoom(0);
  }

  zoom(node) {
    this.zoomed = node;
    this.places = icicleLayout(this.tree, this.children, node, 0.0015);
    this.buttons = new Map();
    const deepest = Math.max(...this.places.map((place) => place.depth));
    const sheet = element('div', { class: 'sheet' });
    sheet.style.height = `${(deepest + 1) * 22}px`;
    for (const place of this.places) sheet.append(this.button(place));
    this.box.replaceChildren(sheet);
    this.tell(node);
  }

  button({ node, depth, left, width }) {
    const name = node === 0 ? 'root' : `series-${this.colour(node)}`;
    const made = element('button', {
      type: 'button', class: name, title: this.text(node), tabindex: node === this.zoomed ? '0' : '-1', 'data-node': String(node),
    }, width > 0.02 ? shortFrame(this.tree.names[node]) : '');
    made.style.left = `${100 * left}%`;
    made.style.width = `${100 * width}%`;
    made.style.top = `${depth * 22}px`;
    this.buttons.set(node, made);
    return made;
  }

  /** A function has one colour wherever it is called. */
  colour(node) {
    const called = this.tree.names[node].replace(/\(\d+\)/, '');
    let hash = 0;
    for (const letter of called) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
    return hash % (SERIES - 1);
  }

  text(node) {
    const { tree, page } = this;
    const share = page.word('share', {
      percent: formatPercent(tree.size_bytes[0] > 0 ? tree.size_bytes[node] / tree.size_bytes[0] : 0),
      whole: formatBytes(tree.size_bytes[0]),
    });
    return `${tree.names[node]}: ${formatBytes(tree.size_bytes[node])}, ${share}, ${page.blocks(tree.blocks[node])}`;
  }

  nodeOf(target) {
    const text = target.getAttribute ? target.getAttribute('data-node') : null;
    return text === null ? null : Number(text);
  }

  tell(node) {
    if (node !== null) this.readout.textContent = this.text(node);
  }

  onClick(event) {
    const node = this.nodeOf(event.target);
    if (node !== null) this.zoomTo(node);
  }

  zoomTo(node) {
    this.zoom(node);
    this.buttons.get(node).focus();
  }

  onKey(event) {
    const node = this.nodeOf(event.target);
    if (node === null) return;
    if (event.key === 'Escape') this.zoomTo(this.tree.parents[this.zoomed]);
    else {
      const next = this.neighbour(node, event.key);
      if (next === undefined || !this.buttons.has(next)) return;
      this.buttons.get(next).focus();
    }
    event.preventDefault();
  }

  neighbour(node, key) {
    const siblings = this.children[this.tree.parents[node]];
    const place = siblings.indexOf(node);
    if (key === 'ArrowUp') return node === 0 ? undefined : this.tree.parents[node];
    if (key === 'ArrowDown') return this.children[node][0];
    if (key === 'ArrowRight') return siblings[place + 1];
    if (key === 'ArrowLeft') return siblings[place - 1];
    return undefined;
  }
}

if (typeof document === 'undefined') {
  module.exports = {
    formatBytes, formatCount, formatMoment, decimalTicks, binaryTicks, treemapLayout, childrenOf, icicleLayout, shortFrame, shortSite,
    sortedRows, stepPath, areaPath,
  };
} else {
  new Page(JSON.parse(document.getElementById('report-data').textContent)).show();
}
