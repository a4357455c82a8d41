'use strict';
/* facts.js: the report's data (its format: report_json.c), numbers as people read them, and the key figures. */

const D = JSON.parse(document.getElementById('data').textContent);
const CLASSES = D.memory.classes;
const CLASS_HELP = {
  kept: 'buffers that stay on the device',
  offloaded: 'buffers that are copied to the host and back',
  clean: 'the same, but the host has them already: only copied back',
  dropped: 'buffers that are given up and recomputed',
  scratch: 'what replays write beside what they are for',
  small: 'the region of small buffers, which never leave',
};
const STEP = D.predicted.step_ns || 1;
/* What the run's budget had beside the plan's: memory that is not ebb's, and small buffers that outlive the step. */
const BESIDE_PLAN = D.measured && D.budget_bytes ? Math.max(0, D.measured.budget_bytes + D.measured.overhead_bytes - D.budget_bytes) : 0;
/* Of driven steps, where the run has measured any; else as predicted. */
const TIMED = Boolean(D.measured && D.measured.variant.driven_timed > 0);
const TOOK = TIMED ? D.measured.variant.driven_ns / D.measured.variant.driven_timed : D.predicted.step_ns;
const PEAK = TIMED ? D.measured.variant.driven_peak_bytes : D.predicted.peak_bytes;

const $ = (id) => document.getElementById(id);

/* An element with attributes and children: texts never become markup. */
function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined) e.setAttribute(key, value);
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

function three(x) {
  return x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0);
}

function time(ns) {
  const units = ['ns', 'us', 'ms', 's'];
  let u = 0;
  while (u < 3 && Math.abs(ns) >= 999.5) {
    ns /= 1000;
    u++;
  }
  return (u ? three(ns) : ns.toFixed(0)) + ' ' + (u === 1 ? '\u00b5s' : units[u]);
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (u < 4 && n >= 1024) {
    n /= 1024;
    u++;
  }
  return (u ? three(n) : String(n)) + ' ' + units[u];
}

/* For an axis: no more digits than the distance between its ticks needs. */
function tickTime(ns, tick) {
  const unit = [['s', 1e9], ['ms', 1e6], ['\u00b5s', 1e3], ['ns', 1]].find((u) => tick * 10 >= u[1]) || ['ns', 1];
  return !ns ? '0' : `${(ns / unit[1]).toFixed(Math.max(0, Math.ceil(-Math.log10(tick / unit[1]) - 1e-9)))} ${unit[0]}`;
}

function tickBytes(n) {
  return bytes(n).replace(/\.0+ /, ' ');
}

function percent(part, whole) {
  const share = whole > 0 ? (100 * part) / whole : 0;
  return share.toFixed(share < 9.95 || (share >= 99.5 && share < 100) ? 1 : 0) + '%';
}

function signed(part, whole) {
  return (part >= 0 ? '+' : '\u2212') + percent(Math.abs(part), whole);
}

/* The outermost ranges that all operations share say nothing: "step/forward/layer 0" is "forward/layer 0". */
const PATHS = (() => {
  const parts = D.nvtx.map((x) => (x ? x.split('/') : []));
  const used = parts.filter((x) => x.length);
  let n = 0;
  while (used.length > 1 && used[0].length > n && used.every((x) => x[n] === undefined || x[n] === used[0][n]) && used.some((x) => x.length > n + 1)) n++;
  return parts.map((x) => x.slice(n));
})();
const nvtx = (i) => PATHS[i].join('/');

function showHead() {
  const p = D.predicted, more = TOOK - p.operations_ns;
  const moved = D.planned && (PEAK < p.everything_peak_bytes || more > 0);
  $('headline').textContent = moved
    ? `${bytes(PEAK)} instead of ${bytes(p.everything_peak_bytes)}, and a step takes ${
        more > 0 ? percent(more, p.operations_ns) + ' longer' : 'no longer'
      }, ${TIMED ? 'measured' : 'predicted'}`
    : `A step that keeps everything takes ${bytes(p.everything_peak_bytes)}`;
  document.title = `${D.title}: ebb report`;
  const link = `${(D.link.out_bytes_per_s / 1e9).toFixed(1)} GB/s out, ${(D.link.in_bytes_per_s / 1e9).toFixed(1)} in`;
  $('subtitle').textContent = [
    D.title,
    D.policy ? `policy ${D.policy}` : null,
    `${D.operations.length} operations, ${D.buffers.length} buffers`,
    `link ${link}${D.link.assumed ? ' (assumed)' : ''}`,
  ].filter((x) => x).join(' \u00b7 ');
  if (D.refusal) {
    $('note').hidden = false;
    $('note').textContent = `This step cannot be planned: ${D.refusal}.`;
  } else if (!D.planned) {
    const m = D.measured, fitted = m && !m.evictions && !m.reactive_drops && !m.plans;
    $('note').hidden = false;
    $('note').textContent = fitted
      ? `Everything fitted (${bytes(m.peak_bytes)} of ${bytes(m.budget_bytes)}): nothing to do.`
      : 'No plan was made, or none was given: this is the step with everything kept.';
  }
}

function tile(name, value, detail) {
  $('tiles').append(el('div', { class: 'tile' }, el('span', {}, name), el('b', {}, value), el('span', {}, detail || '')));
}

/* The measured value where there is one, and beside it what was predicted. */
function showTiles() {
  const p = D.predicted, copies = p.out_ns + p.in_ns, m = D.measured, more = (ns) => signed(ns - p.operations_ns, p.operations_ns);
  tile('Peak device memory', bytes(PEAK),
    TIMED ? `of ${bytes(m.budget_bytes)}; the plan's share ${bytes(p.peak_bytes)}` : D.budget_bytes ? `of ${bytes(D.budget_bytes)} for the plan` : 'predicted');
  tile('If all were kept', bytes(p.everything_peak_bytes), D.planned ? `now ${percent(PEAK, p.everything_peak_bytes)} of it` : 'in whole chunks');
  tile('Time of a step', time(TOOK), TIMED ? `measured; predicted ${time(p.step_ns)}` : `${time(p.operations_ns)} of it operations`);
  tile('Overhead', more(TOOK), (TIMED ? `measured; predicted ${more(p.step_ns)}` : time(p.step_ns - p.operations_ns) + ' a step') +
    (p.above_best === null ? '' : `, at most ${(100 * p.above_best).toFixed(1)}% above the best possible`));
  tile('Copied in a step', bytes(p.bytes_out + p.bytes_in), copies > 0 ? `${percent(p.hidden_ns, copies)} of the time hidden, predicted` : 'nothing');
  if (D.launches.replays) tile('Recomputed', `${D.launches.replays} launch${D.launches.replays === 1 ? '' : 'es'}`, time(D.overhead[0].ns) + ' a step');
  if (m && m.variant.count) tile('Steps driven', `${m.variant.driven}`, `of ${m.variant.count}${m.step_variants > 1 ? ' of this variant' : ''}`);
}
