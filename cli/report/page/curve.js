/* curve.js: what a step costs at other budgets, and the command that runs it again. */

/* The first tick of 1, 2 or 5 times a power of ten that leaves at most six. */
function percentTick(most) {
  const power = Math.pow(10, Math.floor(Math.log10(most / 6)));
  return [1, 2, 5, 10].map((n) => n * power).find((tick) => most / tick <= 6);
}

/* By the run's budgets, as `ebb run --budget` has them. */
const curvePoints = () => D.curve.points.map((p) => [p[0] + BESIDE_PLAN, ...p.slice(1)]);

function drawCurve() {
  const svg = $('curve'), points = curvePoints(), width = Math.max(320, svg.clientWidth), height = 250;
  const left = 62, right = 16, top = 26, bottom = height - 30;
  const low = points[0][0], high = points[points.length - 1][0], most = Math.max(1, ...points.map((p) => p[1])) * 1.08;
  const x = (n) => left + ((n - low) / Math.max(1, high - low)) * (width - left - right);
  const y = (n) => bottom - (n / most) * (bottom - top);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('height', height);
  svg.replaceChildren();
  const tick = percentTick(most);
  for (let n = 0; n <= most; n += tick) {
    svg.append(shape('line', { x1: left, x2: width - right, y1: y(n), y2: y(n), stroke: 'var(--line)', 'stroke-width': 1 }));
    svg.append(shape('text', { x: left - 8, y: y(n) + 4, 'text-anchor': 'end' }, `+${+n.toFixed(2)}%`));
  }
  const ticks = width < 560 ? 2 : 4;
  for (let i = 0; i <= ticks; i++) {
    const n = low + ((high - low) * i) / ticks;
    svg.append(shape('text', { x: x(n), y: height - 10, 'text-anchor': i === ticks ? 'end' : i ? 'middle' : 'start' }, bytes(n)));
  }
  const mark = (at, text, color, row) => {
    if (at < low || at > high) return;
    const end = x(at) > width * 0.6;
    svg.append(shape('line', { x1: x(at), x2: x(at), y1: top - 8, y2: bottom, stroke: color, 'stroke-width': 1.5, 'stroke-dasharray': '5 4' }));
    svg.append(shape('text', { x: x(at) + (end ? -6 : 6), y: top + 16 * row, 'text-anchor': end ? 'end' : 'start', class: 'name' }, text));
  };
  if (D.curve.state !== null) mark(points[D.curve.state][0], 'weights or moments move', 'var(--dropped)', 2);
  if (D.budget_bytes) mark(D.budget_bytes + BESIDE_PLAN, 'this run', 'var(--stall)', 1);
  if (D.curve.sensible !== null) mark(points[D.curve.sensible][0], 'smallest sensible', 'var(--accent)', 0);
  const line = (of, look) => svg.append(shape('polyline', { points: points.map((p) => `${x(p[0]).toFixed(1)},${y(p[of]).toFixed(1)}`).join(' '), fill: 'none', ...look }));
  line(2, { stroke: 'var(--line)', 'stroke-width': 2 });
  line(1, { stroke: 'var(--accent)', 'stroke-width': 2 });
  for (const p of points) {
    const dot = shape('circle', { cx: x(p[0]), cy: y(p[1]), r: 4, fill: 'var(--accent)' });
    dot.append(shape('title', {}, `${bytes(p[0])}: ${p[1].toFixed(1)}% longer, with any plan at least ${p[2].toFixed(1)}%; ${bytes(p[4])} copied, ${p[5]} replays`));
    svg.append(dot);
  }
}

function showCurve() {
  if (!D.curve) return;
  const points = curvePoints(), at = (i) => bytes(points[i][0]), sentences = [];
  sentences.push(`What a step takes longer than its operations, over the budget, as predicted: from ${at(0)}, the smallest that can be planned, to ${at(points.length - 1)}, which keeps everything.`);
  sentences.push('The grey line is what no plan can do better.');
  if (BESIDE_PLAN) sentences.push(`${bytes(BESIDE_PLAN)} of each budget are not the plan's, as in this run.`);
  sentences.push(D.curve.sensible !== null
    ? `From ${at(D.curve.sensible)} on a step takes at most ${D.curve.sensible_percent}% longer.`
    : `No budget in between keeps a step within ${D.curve.sensible_percent}%.`);
  sentences.push(D.curve.state !== null
    ? `Up to ${at(D.curve.state)} weights or moments leave the device; above that only what the step makes.`
    : 'At none of them do weights or moments leave the device.');
  $('curve-section').hidden = false;
  $('curve-words').textContent = sentences.join(' ');
  $('curve').setAttribute('aria-label', sentences.join(' '));
  new ResizeObserver(drawCurve).observe($('curve-section'));
}

function showCommand() {
  if (!D.command) return;
  $('command-section').hidden = false;
  $('command').textContent = D.command;
}
