/* tables.js: overhead, launches, what the run measured, and the buffers. */

function table(columns, rows) {
  const head = el('tr', {}, ...columns.map((c) => el('th', { scope: 'col', class: c.n ? 'n' : null }, c.name)));
  const body = rows.map((r) => el('tr', { class: r.sum ? 'sum' : null },
    ...r.cells.map((cell, i) => el('td', { class: columns[i].n ? 'n' : null }, cell))));
  return el('table', {}, el('thead', {}, head), el('tbody', {}, ...body));
}

const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;

/* ---- overhead ---- */

const CAUSES = [
  { color: 'var(--dropped)', help: (n) => `${count(n, 'launch', 'launches')} that rebuild what was dropped` },
  { color: 'var(--scratch)', help: (n) => `${count(n, 'time', 'times')}: its next call is late, or a copy of the program's waits for the link` },
  { color: 'var(--offloaded)', help: (n) => `${count(n, 'wait', 'waits')} for memory, while the copy out is under way` },
  { color: 'color-mix(in srgb, var(--offloaded) 65%, var(--ink))', help: (n) => `${count(n, 'wait', 'waits')} for data, while the copy in is under way` },
  { color: 'color-mix(in srgb, var(--offloaded) 45%, var(--card))', help: () => 'of the same waits: while that copy waits for other copies' },
  { color: 'color-mix(in srgb, var(--offloaded) 65%, var(--card))', help: () => 'of the same waits: while that copy waits for other copies' },
  { color: 'var(--kept)', help: (n) => `beside ${count(n, 'copy', 'copies')}` },
  { color: 'color-mix(in srgb, var(--dropped) 55%, var(--card))', help: (n) => `${count(n, 'hash', 'hashes')} of what is recomputed, before and after; ${D.compared_share < 1 && D.compared_share > 0 ? `one part of ${Math.round(1 / D.compared_share)} in every step` : 'all of it'} (EBB_VERIFY)` },
];

function showOverhead() {
  const all = D.predicted.step_ns - D.predicted.operations_ns, box = $('overhead');
  if (all > 0) {
    const part = (ns, color, title) => el('i', { style: `width:${(100 * ns) / STEP}%;background:${color}`, title: `${title}: ${time(ns)}` });
    box.append(el('div', { class: 'stack', role: 'img', 'aria-label': 'A step, to scale: its operations, and the causes of its overhead as in the table' },
      part(D.predicted.operations_ns, 'var(--line)', 'operations'),
      ...D.overhead.map((o, i) => part(o.ns, CAUSES[i].color, o.cause))));
  } else {
    box.append(el('p', { class: 'soft' }, 'The plan is predicted to cost nothing: a step takes as long as its operations.'));
  }
  const shown = D.overhead.map((o, i) => ({
    ns: o.ns,
    cells: [
      el('div', {}, el('span', { class: 'fate' }, el('i', { class: 'swatch', style: `background:${CAUSES[i].color}` }), o.cause), el('div', { class: 'soft' }, CAUSES[i].help(o.count))),
      time(o.ns),
      signed(o.ns, D.predicted.operations_ns),
    ],
  })).filter((r) => r.ns);
  if (shown.length) {
    shown.push({ sum: true, cells: ['all of it', time(all), signed(all, D.predicted.operations_ns)] });
    box.append(table([{ name: 'cause' }, { name: 'a step, predicted', n: true }, { name: 'adds', n: true }], shown));
  }
  if (TIMED && TOOK > 1.01 * D.predicted.step_ns)
    box.append(el('p', { class: 'soft' }, `A step took ${time(TOOK - D.predicted.step_ns)} longer than predicted. The prediction gives copies the link and kernels the device for themselves; on the software device all of them share the processor.`));
}

/* ---- launches ---- */

function showLaunches() {
  const l = D.launches;
  const rows = [
    ['kernels', l.kernels, l.kernels],
    ['copies of the program', l.copies, l.copies],
    ['memsets', l.sets, l.sets],
    ['other operations', l.other, l.other],
    ['replayed kernels', 0, l.replays],
    ['copies to the host', 0, l.copies_out],
    ['copies from the host', 0, l.copies_in],
  ].filter((r) => r[1] + r[2] > 0);
  $('launches').append(table([{ name: '' }, { name: 'without ebb', n: true }, { name: 'with', n: true }],
    rows.map((r) => ({ cells: r.map(String) })).concat({ sum: true, cells: ['all', String(l.without), `${l.with} (${signed(l.with - l.without, l.without)})`] })));
}

/* ---- the run ---- */

function showMeasured() {
  const m = D.measured, v = m && m.variant, waits = D.overhead.slice(2, 6).reduce((sum, o) => sum + o.ns, 0);
  if (!m) return;
  const rows = [];
  const each = (n) => n / v.driven;
  if (v.driven > 0) {
    rows.push(['device memory at most', bytes(v.predicted_peak_bytes), bytes(v.driven_peak_bytes)]);
    if (v.driven_timed > 0) rows.push(['time of a driven step', time(D.predicted.step_ns), time(v.driven_ns / v.driven_timed)]);
    rows.push(['waits for copies in a step', time(waits), time(each(v.driven_stall_ns))]);
    if (D.launches.replays || v.replays) rows.push(['replayed launches in a step', String(D.launches.replays), each(v.replays).toFixed(1)]);
  }
  $('measured').append(el('h3', {}, 'Predicted, and measured in the run'));
  if (rows.length) {
    $('measured').append(table([{ name: '' }, { name: 'predicted', n: true }, { name: 'measured', n: true }], rows.map((cells) => ({ cells }))));
  }
  $('measured').append(el('p', { class: 'soft' },
    `${v.driven} of ${v.count} steps of this variant followed the plan, which was left ${count(v.fallbacks, 'time', 'times')}. ` +
    (m.step_variants > 1 ? `The program has ${m.step_variants} step variants; of all its ${m.steps + m.steps_interrupted} steps ${m.steps_driven} were driven. ` : '') +
    `Beside the plan ${m.evictions} buffers were copied out and ${m.fetches} back when memory ran out, while ebb learned or the program did something else. ` +
    (m.verified ? `Of what was recomputed, ${m.verified} contents were compared: ${m.mismatches ? m.mismatches + ' differed.' : 'none differed.'} ` : '') +
    `Over the whole run at most ${bytes(m.peak_bytes)} of ${bytes(m.budget_bytes)} were in use.`));
}

/* ---- buffers ---- */

const main = (b) => b.gaps[0];
const again = (g) => (g.no_replay ? Infinity : g.replay_ns === null ? NaN : g.replay_ns);
const COLUMNS = [
  { name: 'buffer', n: true, key: (b) => b.buffer, up: true, cell: (b) => String(b.buffer) },
  { name: 'what', class: 'what', key: (b) => nvtx(b.nvtx), up: true, cell: whatCell },
  { name: 'size', n: true, key: (b) => b.bytes, cell: (b) => bytes(b.bytes) },
  { name: 'gap', n: true, help: 'the longest time between two uses in which it leaves the device, or the longest of all', key: (b) => (main(b) ? main(b).ns : -1), cell: (b) => (main(b) ? time(main(b).ns) : '\u2013') },
  { name: 'fate', key: (b) => b.fate, up: true, cell: fateCell },
  { name: 'costs', n: true, help: 'what the step takes longer for it, in all of its gaps', key: costOf, cell: (b) => (costOf(b) ? time(costOf(b)) : '0') },
  { name: 'copying', n: true, help: 'out and back: time on the link, whether or not it is hidden', key: (b) => (main(b) ? main(b).out_ns + main(b).in_ns : -1), cell: (b) => (main(b) && main(b).out_ns ? time(main(b).out_ns + main(b).in_ns) : '\u2013') },
  { name: 'recomputing', n: true, help: 'the launches that would make it again from what is there', key: (b) => (main(b) && again(main(b)) >= 0 ? again(main(b)) : -1), cell: (b) => (!main(b) || Number.isNaN(again(main(b))) ? '\u2013' : main(b).no_replay ? 'impossible' : time(main(b).replay_ns)) },
  { name: 'why', class: 'why', key: (b) => b.why, up: true, cell: (b) => b.why },
];
const listing = { sort: 5, up: false, find: '', hidden: new Set(), rows: 60, found: -1 };

function costOf(b) {
  return b.gaps.reduce((sum, g) => sum + g.cost_ns, 0);
}

function whatCell(b) {
  const name = nvtx(b.nvtx), kernel = b.maker === null ? 'not used in the step' : D.names[D.operations[b.maker][2]];
  return el('div', {}, name || kernel, name ? el('div', { class: 'soft' }, kernel) : null);
}

function fateCell(b) {
  return el('span', { class: 'fate' }, el('i', { class: 'swatch', style: `background:var(--${b.fate})` }), b.fate,
    b.gaps.length > 1 ? el('span', { class: 'soft' }, `\u00d7${b.gaps.length}`) : null);
}

function shown(b) {
  if (listing.hidden.has(b.fate)) return false;
  if (!listing.find) return true;
  const text = `${b.buffer} ${nvtx(b.nvtx)} ${b.maker === null ? '' : D.names[D.operations[b.maker][2]]} ${b.fate} ${b.why}`.toLowerCase();
  return listing.find.split(/\s+/).every((word) => text.includes(word));
}

function sorted() {
  const key = COLUMNS[listing.sort].key, sign = listing.up ? 1 : -1;
  return D.buffers.filter(shown).map((b) => [key(b), b])
    .sort((x, y) => (x[0] < y[0] ? -sign : x[0] > y[0] ? sign : y[1].bytes - x[1].bytes || x[1].buffer - y[1].buffer))
    .map((x) => x[1]);
}

function rowOf(b) {
  return el('tr', { id: `buffer-${b.buffer}`, class: b.buffer === listing.found ? 'found' : null },
    ...COLUMNS.map((c) => el('td', { class: c.n ? 'n' : c.class, 'data-label': c.name }, c.cell(b))));
}

function showBuffers() {
  const list = sorted();
  const head = el('tr', {}, ...COLUMNS.map((c, i) => {
    const button = el('button', { type: 'button', title: c.help }, c.name + (i === listing.sort ? (listing.up ? ' \u25b4' : ' \u25be') : ''));
    button.addEventListener('click', () => {
      listing.up = listing.sort === i ? !listing.up : !!c.up;
      listing.sort = i;
      showBuffers();
      document.querySelectorAll('#buffers th button')[i].focus();
    });
    return el('th', { scope: 'col', class: c.n ? 'n' : null, 'aria-sort': i === listing.sort ? (listing.up ? 'ascending' : 'descending') : null }, button);
  }));
  $('buffers').replaceChildren(el('thead', {}, head), el('tbody', {}, ...list.slice(0, listing.rows).map(rowOf)));
  const rest = list.length - Math.min(list.length, listing.rows);
  $('more').replaceChildren(`${list.length - rest} of ${list.length} buffers${list.length < D.buffers.length ? ` (${D.buffers.length} in all)` : ''}. `);
  if (rest) {
    const button = el('button', { type: 'button' }, `Show ${Math.min(rest, 500)} more`);
    button.addEventListener('click', () => { listing.rows += 500; showBuffers(); });
    $('more').append(button);
  }
}

function findBuffer(buffer) {
  listing.find = '';
  listing.hidden.clear();
  listing.found = buffer;
  $('find').value = '';
  showFates();
  listing.rows = Math.max(listing.rows, sorted().findIndex((b) => b.buffer === buffer) + 20);
  showBuffers();
  const row = $(`buffer-${buffer}`);
  if (row) row.scrollIntoView({ block: 'center', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth' });
}

function showFates() {
  $('fates').replaceChildren(...CLASSES.slice(0, 3).map((fate) => {
    const f = D.fates[fate];
    const button = el('button', { type: 'button', 'aria-pressed': String(!listing.hidden.has(fate)), title: `${f.buffers} large buffers, ${bytes(f.bytes)}` },
      el('span', { class: 'fate' }, el('i', { class: 'swatch', style: `background:var(--${fate})` }), fate));
    button.addEventListener('click', () => {
      if (!listing.hidden.delete(fate)) listing.hidden.add(fate);
      showFates();
      showBuffers();
    });
    return button;
  }));
}

/* ---- all of it ---- */

showHead();
showTiles();
showLegend();
listen();
showOverhead();
showLaunches();
showMeasured();
showCurve();
showCommand();
showFates();
showBuffers();
$('find').addEventListener('input', (e) => {
  listing.find = e.target.value.trim().toLowerCase();
  showBuffers();
});
