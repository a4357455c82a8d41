/* charts.js: memory and lanes over one time axis that zooms. What is narrower than a pixel is drawn together with its
 * neighbours, so that a step of many thousand operations costs no more than the picture is wide. */

const SVG = 'http://www.w3.org/2000/svg';
const view = { from: 0, to: STEP, width: 0, left: 78, right: 10 };
const LANE = 26, LANE_GAP = 6, RANGE = 18;

function shape(name, attributes, text) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

const inner = () => Math.max(1, view.width - view.left - view.right);
const xOf = (ns) => view.left + ((ns - view.from) / (view.to - view.from)) * inner();
const nsOf = (x) => view.from + ((x - view.left) / inner()) * (view.to - view.from);
const inside = (x) => Math.min(view.width - view.right, Math.max(view.left, x));

/* The last of a sorted list whose key is not behind `at`; -1: none. */
function lastBefore(list, at, key) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/* ---- the lanes' contents ---- */

/* A copy that goes on behind the step did so in the step before. */
function periodic(spans) {
  const wrapped = spans.filter((s) => s[1] > STEP).map((s) => [s[0] - STEP, s[1] - STEP, ...s.slice(2)]);
  return wrapped.concat(spans).sort((a, b) => a[0] - b[0]);
}

/* Ranges of one depth: [begin, end, name, path]; neighbours with the same path are one. */
function rangesOf(depth) {
  const out = [];
  for (const [begin, end, , path] of D.operations) {
    const name = PATHS[path][depth];
    const whole = PATHS[path].slice(0, depth + 1).join('/');
    const last = out[out.length - 1];
    if (last && last[3] === whole && last.open) last[1] = end;
    else {
      if (last) last.open = false;
      if (name) out.push(Object.assign([begin, end, name, whole], { open: true }));
    }
  }
  return out;
}

const LANES = [];
for (let depth = 0; depth < 4; depth++) {
  const spans = rangesOf(depth);
  if (spans.length) LANES.push({ key: 'nvtx', name: depth ? '' : 'NVTX', spans, height: RANGE });
}
const STREAMS = [...new Set(D.operations.map((o) => o[4]))].sort((a, b) => a - b);
STREAMS.forEach((stream, i) => LANES.push({ key: 'compute', name: STREAMS.length > 1 ? `stream ${stream}` : 'compute', color: 'var(--compute)',
  spans: D.operations.filter((o) => o[4] === stream), height: LANE, waits: i ? null : D.waits }));
if (D.planned) {
  if (D.replays.length) LANES.push({ key: 'replay', name: 'replay', spans: D.replays, color: 'var(--dropped)', height: LANE });
  if (D.out.length) LANES.push({ key: 'out', name: 'copy out', spans: periodic(D.out), color: 'var(--offloaded)', height: LANE });
  if (D.in.length) LANES.push({ key: 'in', name: 'copy in', spans: periodic(D.in), color: 'var(--offloaded)', height: LANE });
}
{
  let y = 0;
  for (const lane of LANES) {
    lane.y = y;
    y += lane.height + (lane.key === 'nvtx' ? 1 : LANE_GAP);
  }
  view.lanes = y;
}

/* ---- drawing ---- */

/* The spans in view as one path: those that touch within half a pixel, and are narrow, become one. */
function pathOf(spans, y, height, least) {
  let d = '', from = -1, to = -1;
  const flush = () => {
    if (from >= 0) d += `M${from.toFixed(1)} ${y}H${Math.max(to, from + least).toFixed(1)}V${y + height}H${from.toFixed(1)}Z`;
  };
  for (const [begin, end] of spans) {
    if (end < view.from || begin > view.to) continue;
    const a = inside(xOf(begin)), b = inside(xOf(end));
    const cut = b - a > 3 ? b - 0.6 : b; /* neighbours stay apart where there is room */
    if (from >= 0 && a - to < 0.5 && (cut - a < 2 || to - from < 2)) {
      to = Math.max(to, cut);
      continue;
    }
    flush();
    from = a;
    to = cut;
  }
  flush();
  return d;
}

function drawRanges(svg, lane) {
  let count = 0;
  for (const [begin, end, name] of lane.spans) {
    count++;
    const a = inside(xOf(begin)), b = inside(xOf(end));
    if (b - a < 1.2) continue;
    svg.append(shape('rect', { x: a.toFixed(1), y: lane.y, width: (b - a - 0.6).toFixed(1), height: lane.height, rx: 2,
      fill: 'var(--small)', opacity: count % 2 ? 0.55 : 0.3 }));
    if (b - a > 7 * name.length + 6)
      svg.append(shape('text', { x: ((a + b) / 2).toFixed(1), y: lane.y + 13, 'text-anchor': 'middle', class: 'name' }, name));
  }
}

/* Stalls stand in the compute lane: full while the copy runs, hatched while it is queued. */
function drawWaits(svg, lane) {
  const queued = [], exposed = [];
  for (const [begin, end, copy] of lane.waits) {
    if (copy > begin) queued.push([begin, Math.min(copy, end)]);
    if (copy < end) exposed.push([Math.max(copy, begin), end]);
  }
  svg.append(shape('path', { d: pathOf(queued, lane.y, lane.height, 1.5), fill: 'url(#hatch)' }));
  svg.append(shape('path', { d: pathOf(exposed, lane.y, lane.height, 1.5), fill: 'var(--stall)' }));
}

function drawLanes() {
  const svg = $('lanes');
  const bottom = view.lanes + 22;
  svg.setAttribute('viewBox', `0 0 ${view.width} ${bottom}`);
  svg.setAttribute('height', bottom);
  svg.replaceChildren();
  const hatch = shape('pattern', { id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' });
  hatch.append(shape('rect', { width: 2.5, height: 5, fill: 'var(--stall)' }));
  const defs = shape('defs', {});
  defs.append(hatch);
  svg.append(defs);
  for (const lane of LANES) {
    if (lane.name) svg.append(shape('text', { x: view.left - 8, y: lane.y + lane.height / 2 + 4, 'text-anchor': 'end' }, lane.name));
    svg.append(shape('rect', { x: view.left, y: lane.y, width: inner(), height: lane.height, fill: 'var(--grid)', opacity: 0.6 }));
    if (lane.key === 'nvtx') drawRanges(svg, lane);
    else svg.append(shape('path', { d: pathOf(lane.spans, lane.y, lane.height, 0.8), fill: lane.color }));
    if (lane.waits) drawWaits(svg, lane);
  }
  drawTimes(svg, view.lanes);
  svg.append(shape('line', { class: 'cross', y1: 0, y2: view.lanes, stroke: 'var(--ink)', 'stroke-width': 1, opacity: 0 }));
}

/* Ticks at 1, 2 or 5 times a power of ten, about one for every 110 pixels, or four. */
function drawTimes(svg, y) {
  const raw = ((view.to - view.from) / inner()) * Math.min(110, inner() / 3.5);
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const tick = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  for (let ns = Math.ceil(view.from / tick) * tick; ns <= view.to + tick / 1e6; ns += tick) {
    const x = xOf(ns);
    const anchor = x > view.width - 40 ? 'end' : x < view.left + 10 ? 'start' : 'middle';
    svg.append(shape('line', { x1: x, x2: x, y1: y - LANE_GAP, y2: y, stroke: 'var(--soft)', 'stroke-width': 1 }));
    svg.append(shape('text', { x, y: y + 15, 'text-anchor': anchor }, tickTime(ns, tick)));
  }
}

/* For each column of pixels the fullest level in it. */
function columns() {
  const n = Math.ceil(inner()), levels = D.memory.levels, out = new Int32Array(n).fill(-1);
  const total = (i) => { let sum = 0; for (let k = 1; k < levels[i].length; k++) sum += levels[i][k]; return sum; };
  for (let i = Math.max(0, lastBefore(levels, view.from, (l) => l[0])); i < levels.length && levels[i][0] <= view.to; i++) {
    const end = i + 1 < levels.length ? levels[i + 1][0] : STEP;
    const a = Math.max(0, Math.floor(xOf(levels[i][0]) - view.left)), b = Math.min(n - 1, Math.ceil(xOf(end) - view.left));
    for (let x = a; x <= b; x++) if (out[x] < 0 || total(i) > total(out[x])) out[x] = i;
  }
  return out;
}

function drawMemory() {
  const svg = $('memory'), height = view.width < 640 ? 190 : 270, top = 12, bottom = height - 8;
  const most = Math.max(D.predicted.peak_bytes, D.budget_bytes || 0, D.predicted.everything_peak_bytes, 1) * 1.04;
  const yOf = (n) => bottom - (n / most) * (bottom - top);
  svg.setAttribute('viewBox', `0 0 ${view.width} ${height}`);
  svg.setAttribute('height', height);
  svg.replaceChildren();
  const unit = Math.pow(2, Math.floor(Math.log2(most / 3)));
  for (let n = 0; n <= most; n += unit) {
    svg.append(shape('line', { x1: view.left, x2: view.width - view.right, y1: yOf(n), y2: yOf(n), stroke: 'var(--line)', 'stroke-width': 1 }));
    svg.append(shape('text', { x: view.left - 8, y: yOf(n) + 4, 'text-anchor': 'end' }, tickBytes(n)));
  }
  const column = columns(), order = [4, 0, 1, 2, 3]; /* the floor first */
  const base = new Float64Array(column.length);
  for (const k of order) {
    let up = '', down = '';
    for (let x = 0; x < column.length;) {
      let end = x + 1;
      while (end < column.length && column[end] === column[x]) end++;
      const here = column[x] < 0 ? 0 : D.memory.levels[column[x]][k + 1];
      const a = view.left + x, b = Math.min(view.left + end, view.width - view.right);
      up += `${x ? 'L' : 'M'}${a} ${yOf(base[x] + here).toFixed(1)}H${b}`;
      down = `L${b} ${yOf(base[x]).toFixed(1)}H${a}` + down;
      for (let i = x; i < end; i++) base[i] += here;
      x = end;
    }
    svg.append(shape('path', { d: up + down + 'Z', fill: `var(--${CLASSES[k]})` }));
  }
  drawEverything(svg, yOf);
  if (D.budget_bytes) {
    svg.append(shape('line', { x1: view.left, x2: view.width - view.right, y1: yOf(D.budget_bytes), y2: yOf(D.budget_bytes), stroke: 'var(--stall)', 'stroke-width': 1.5 }));
  }
  svg.append(shape('line', { class: 'cross', y1: top, y2: height, stroke: 'var(--ink)', 'stroke-width': 1, opacity: 0 }));
}

function drawEverything(svg, yOf) {
  let d = '', column = -1, most = 0;
  const put = () => { if (column >= 0) d += `${d ? 'H' : 'M'}${inside(column).toFixed(0)}${d ? 'V' : ' '}${yOf(most).toFixed(1)}`; };
  const first = Math.max(0, lastBefore(D.operations, view.from, (o) => o[0]));
  for (let i = first; i < D.operations.length && D.operations[i][0] <= view.to; i++) {
    for (const ns of [D.operations[i][0], i + 1 < D.operations.length ? D.operations[i + 1][0] : STEP]) {
      const x = Math.round(xOf(Math.max(view.from, Math.min(view.to, ns))));
      if (x !== column) {
        put();
        column = x;
        most = 0;
      }
      most = Math.max(most, D.memory.everything[i]);
    }
  }
  put();
  if (D.planned)
    svg.append(shape('path', { d, fill: 'none', stroke: 'var(--everything)', 'stroke-width': 1.5, 'stroke-dasharray': '5 4' }));
}

let wanted = 0;
function draw() {
  cancelAnimationFrame(wanted);
  wanted = requestAnimationFrame(() => {
    drawMemory();
    drawLanes();
    const whole = view.from <= 0 && view.to >= STEP;
    $('range').textContent = whole ? `all ${time(STEP)}` : `${time(view.from)} to ${time(view.to)}`;
  });
}

/* ---- legend and words for those who do not see it ---- */

function showLegend() {
  const entry = (swatch, text, help) => $('legend').append(el('span', { title: help }, swatch, text));
  for (const k of [0, 1, 2, 3, 4])
    if (D.memory.levels.some((l) => l[k + 1] > 0))
      entry(el('i', { class: 'swatch', style: `background:var(--${CLASSES[k]})` }), CLASSES[k], CLASS_HELP[CLASSES[k]]);
  if (D.planned) entry(el('i', { class: 'swatch dash' }), 'if all were kept', 'what would be alive, in whole chunks');
  if (D.budget_bytes) entry(el('i', { class: 'swatch rule' }), 'budget of the plan', 'device bytes that the plan may use');
  if (D.waits.length) entry(el('i', { class: 'swatch', style: 'background:var(--stall)' }), 'compute waits for a copy', 'hatched: the copy itself is still queued');
  const p = D.predicted;
  if (D.planned) $('step-hint').prepend(`The plan holds ${bytes(p.peak_bytes)} all through the step; the stack is what is in use of it. `);
  $('memory').setAttribute('aria-label', `Device memory over the step, by fate: at most ${bytes(p.peak_bytes)}; ${bytes(p.everything_peak_bytes)} if all were kept.`);
  $('lanes').setAttribute('aria-label', `Lanes over ${time(STEP)}: ${D.operations.length} operations, ${D.replays.length} replays, ${D.out.length} copies out, ${D.in.length} copies in, ${D.waits.length} waits.`);
}

/* ---- what the pointer is on ---- */

function spanAt(lane, ns, reach) {
  const at = lastBefore(lane.spans, ns + reach, (s) => s[0]);
  for (let i = at; i >= 0 && i > at - 4; i--) if (lane.spans[i][1] >= ns - reach) return lane.spans[i];
  return null;
}

function waitAt(lane, ns, reach) {
  return lane.waits ? lane.waits.find((w) => w[0] <= ns + reach && w[1] >= ns - reach) : null;
}

const named = (buffer) => `buffer ${buffer}${D.buffers[buffer] ? ` (${bytes(D.buffers[buffer].bytes)})` : ''}`;

function describe(lane, s) {
  const when = `${time(s[1] - s[0])}, at ${time(Math.max(0, s[0]))}`;
  if (lane.key === 'nvtx') return `${s[3]}\n${when}`;
  if (lane.key === 'compute') return `${D.names[s[2]]}\n${nvtx(s[3]) ? nvtx(s[3]) + '\n' : ''}${when}`;
  if (lane.key === 'replay') return `${D.names[D.operations[s[2]][2]]}, again\n${nvtx(D.operations[s[2]][3])}\n${when}`;
  const b = D.buffers[s[2]];
  return `${lane.name}: ${named(s[2])}\n${b && nvtx(b.nvtx) ? nvtx(b.nvtx) + '\n' : ''}${when}${s[1] > STEP ? ', into the next step' : ''}`;
}

function describeWait(w) {
  const what = w[3] === 'out' ? 'memory: the copy out of' : 'data: the copy in of';
  const queued = Math.max(0, Math.min(w[1], w[2]) - w[0]);
  return `compute waits ${time(w[1] - w[0])} for ${what} ${named(w[4])}${queued ? `\n${time(queued)} of it the copy is queued` : ''}`;
}

function describeMemory(ns) {
  const level = D.memory.levels[Math.max(0, lastBefore(D.memory.levels, ns, (l) => l[0]))];
  const operation = lastBefore(D.operations, ns, (o) => o[0]);
  const rows = CLASSES.map((c, k) => [c, level[k + 1]]).filter((r) => r[1] > 0).map((r) => `${r[0]} ${bytes(r[1])}`);
  const sum = level.slice(1).reduce((a, b) => a + b, 0);
  return `${time(ns)}: ${bytes(sum)} in use\n${rows.join('\n')}${operation >= 0 && D.planned ? `\nif all were kept ${bytes(D.memory.everything[operation])}` : ''}`;
}

/* What is under the pointer: {text, buffer}. */
function pointed(event) {
  const box = $('charts').getBoundingClientRect(), lanes = $('lanes').getBoundingClientRect();
  const x = event.clientX - box.left;
  if (x < view.left || x > view.width - view.right) return null;
  const ns = nsOf(x), reach = ((view.to - view.from) / inner()) * 3, y = event.clientY - lanes.top;
  if (y < 0) return { ns, text: describeMemory(ns) };
  const lane = LANES.find((l) => y >= l.y && y <= l.y + l.height);
  if (!lane) return { ns };
  const exact = spanAt(lane, ns, 0), wait = waitAt(lane, ns, exact ? 0 : reach);
  if (wait) return { ns, text: describeWait(wait), buffer: wait[4] };
  const s = exact || spanAt(lane, ns, reach);
  return s ? { ns, text: describe(lane, s), buffer: lane.key === 'out' || lane.key === 'in' ? s[2] : undefined } : { ns };
}

function showTip(event, text) {
  const tip = $('tip');
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 16 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16;
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${Math.max(8, y)}px`;
}

function cross(ns) {
  for (const line of document.querySelectorAll('.cross')) {
    line.setAttribute('opacity', ns === null ? 0 : 0.5);
    if (ns !== null) for (const key of ['x1', 'x2']) line.setAttribute(key, xOf(ns));
  }
}

/* ---- moving and zooming ---- */

function setView(from, to) {
  const least = STEP / 20000, length = Math.min(STEP, Math.max(least, to - from));
  view.from = Math.max(0, Math.min(STEP - length, from));
  view.to = view.from + length;
  draw();
}

function zoom(factor, at) {
  const center = at === undefined ? (view.from + view.to) / 2 : at;
  setView(center - (center - view.from) * factor, center + (view.to - center) * factor);
}

function move(part) {
  const by = (view.to - view.from) * part;
  setView(view.from + by, view.to + by);
}

const MOVES = { in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => setView(0, STEP) };
const KEYS = { '+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'all' };

function listen() {
  const charts = $('charts');
  let drag = null;
  for (const button of document.querySelectorAll('[data-zoom]')) button.addEventListener('click', MOVES[button.dataset.zoom]);
  charts.addEventListener('keydown', (e) => {
    if (!KEYS[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    MOVES[KEYS[e.key]]();
  });
  charts.addEventListener('wheel', (e) => {
    if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return; /* the page scrolls */
    e.preventDefault();
    if (e.ctrlKey || e.metaKey) zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 200), nsOf(e.clientX - charts.getBoundingClientRect().left));
    else move(e.deltaX / inner());
  }, { passive: false });
  charts.addEventListener('pointerdown', (e) => { if (e.button === 0) drag = { x: e.clientX, from: view.from, to: view.to, moved: false }; });
  charts.addEventListener('pointermove', (e) => {
    if (drag && (drag.moved || Math.abs(e.clientX - drag.x) > 4)) {
      if (!drag.moved) charts.setPointerCapture(e.pointerId);
      drag.moved = true;
      charts.classList.add('drag');
      const by = ((drag.x - e.clientX) / inner()) * (drag.to - drag.from);
      setView(drag.from + by, drag.to + by);
      showTip(e, null);
      return;
    }
    const p = pointed(e);
    showTip(e, p && p.text);
    cross(p ? p.ns : null);
  });
  const stop = () => { charts.classList.remove('drag'); drag = null; };
  charts.addEventListener('pointerup', (e) => {
    const p = drag && !drag.moved ? pointed(e) : null;
    stop();
    if (p && p.buffer !== undefined) findBuffer(p.buffer);
  });
  charts.addEventListener('pointercancel', stop);
  charts.addEventListener('pointerleave', (e) => { showTip(e, null); cross(null); });
  new ResizeObserver(() => {
    const width = Math.floor(charts.clientWidth);
    if (width === view.width) return;
    view.width = width;
    view.left = width < 520 ? 62 : 78;
    draw();
  }).observe(charts);
}
