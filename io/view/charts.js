'use strict';
// Curves with axes, for every page. window.charts.draw(parent, chart), with chart: {title, x, y: what the axes say, curves: [{name, x, y,
// dots: points without a line, low, high: a range at each point, dashed}], bounds: [{name, y}], names: what stands at 0, 1, 2, ... of x, logX, logY: true, false, or undefined: where the numbers span much, wide}.
window.charts = (function () {
  function svg(parent, name, attributes, text) {
    const node = parent.appendChild(document.createElementNS('http://www.w3.org/2000/svg', name));
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const POWER = {'-': '\u207b', 0: '\u2070', 1: '\u00b9', 2: '\u00b2', 3: '\u00b3', 4: '\u2074', 5: '\u2075', 6: '\u2076', 7: '\u2077', 8: '\u2078', 9: '\u2079'};
  const raised = exponent => String(exponent).replace(/./g, c => POWER[c]);
  const short = value => {
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e6)) {
      const [head, exponent] = value.toExponential(3).split('e');
      return (+head === 1 ? '' : String(+head).replace('-', '\u2212') + '\u00d7') + '10' + raised(+exponent);
    }
    return String(+value.toPrecision(5)).replace('-', '\u2212');
  };
  function ticks(low, high, most, whole) {
    const rough = Math.max((high - low) / most, whole ? 1 : 0), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= rough * 0.999), list = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) list.push(+(k * step).toPrecision(12));
    return list;
  }
  function powers(low, high, most) {  // of ten, and where there are few 2 and 5 times them; low and high: their exponents
    const every = Math.max(1, Math.ceil((high - low) / most)), list = [];
    for (let e = Math.floor(low); e <= Math.ceil(high); e++) {
      if (e % every === 0 || every === 1) for (const k of high - low < 1.5 ? [1, 2, 5] : [1]) list.push(k * 10 ** e);
    }
    return list.filter(v => Math.log10(v) >= low - 1e-9 && Math.log10(v) <= high + 1e-9);
  }
  function label(value, log) {
    const exponent = Math.log10(Math.abs(value));
    if (log && value > 0 && Math.abs(exponent - Math.round(exponent)) < 1e-9 && (exponent < -2.5 || exponent > 4.5)) return '10' + raised(Math.round(exponent));
    return short(value);
  }
  const widths = document.createElement('canvas').getContext('2d');
  function wide(text, size) { widths.font = (size || 12) + 'px system-ui, sans-serif'; return widths.measureText(text).width; }

  // One axis: from numbers to places between `from` and `to`.
  function axis(values, log, from, to, padded, most) {
    let least = Infinity, greatest = -Infinity, positive = Infinity;
    for (const list of values) for (const v of list) { if (v < least) least = v; if (v > greatest) greatest = v; if (v > 0 && v < positive) positive = v; }
    const isLog = log === undefined ? least > 0 && greatest > 100 * least : log && greatest > 0;
    const scale = isLog ? v => Math.log10(Math.max(v, positive)) : v => v;
    let low = isLog ? Math.log10(positive) : least, high = scale(greatest);
    if (!(high > low)) { const by = isLog ? 0.5 : Math.abs(low) / 10 || 1; low -= by; high += by; }
    if (padded) { const margin = 0.06 * (high - low); low -= margin; high += margin; }
    return {log: isLog, ticks: isLog ? powers(low, high, most) : ticks(low, high, most, values.every(list => list.every(Number.isInteger))), at: v => from + (scale(v) - low) / (high - low) * (to - from)};
  }
  // Names of curves in a row, as many rows as it takes.
  function legend(root, entries, left, right, top) {
    let x = left, y = top;
    for (const e of entries) {
      const length = 26 + wide(e.name, 12.5);
      if (x > left && x + length > right) { x = left; y += 18; }
      if (e.dots) svg(root, 'circle', {cx: x + 8, cy: y - 4, r: 3.4, style: `stroke: ${e.stroke}; fill: none`, 'stroke-width': 1.6});
      else svg(root, 'path', {d: `M${x} ${y - 4}h17`, style: `stroke: ${e.stroke}`, 'stroke-width': 2, 'stroke-dasharray': e.dashed ? '5 4' : 'none', fill: 'none'});
      svg(root, 'text', {x: x + 22, y, class: 'legend'}, e.name);
      x += length + 18;
    }
    return entries.length ? y : top - 18;
  }
  function draw(parent, chart) {
    const holder = parent.appendChild(document.createElement('div'));
    holder.className = 'plot';
    let before = 0;
    const redraw = () => {
      const width = Math.max(260, Math.min(holder.clientWidth || 520, 1200));
      if (Math.abs(width - before) < 2) return;
      before = width;
      holder.textContent = '';
      paint(holder, chart, width);
    };
    redraw();
    if (window.ResizeObserver) new ResizeObserver(redraw).observe(holder);
    return holder;
  }
  // A name in two lines at most.
  function words(name) {
    const all = name.split(' '), half = Math.ceil(all.length / 2);
    return all.length < 2 ? all : [all.slice(0, half).join(' '), all.slice(half).join(' ')];
  }
  function paint(holder, chart, width) {
    const stroke = k => `var(--curve-${k % 8})`, curves = chart.curves.map((c, k) => ({...c, stroke: stroke(c.colour === undefined ? k : c.colour)}));
    const bounds = (chart.bounds || []).map(b => ({...b, dashed: true, stroke: 'var(--soft)'}));
    const root = svg(holder, 'svg', {class: 'chart', role: 'img', 'aria-label': chart.title + ': ' + chart.y + ' over ' + chart.x});
    svg(root, 'text', {x: 0, y: 14, class: 'title'}, chart.title);
    const named = [...curves, ...bounds].filter((e, i, all) => e.name && all.findIndex(o => o.name === e.name) === i), shown = named.length > 1 || bounds.length ? named : [];
    const top = legend(root, shown, 0, width, 38) + (chart.y ? 28 : 12), plot = Math.max(150, Math.min(230, 0.42 * width)), bottom = top + plot, height = bottom + (chart.names ? 58 : 44);
    if (chart.y) svg(root, 'text', {x: 0, y: top - 9}, chart.y);

    const y = axis([...curves.flatMap(c => [c.y, c.low || [], c.high || []]), bounds.map(b => b.y)], chart.logY, bottom, top, true, Math.max(2, Math.floor(plot / 42)));
    const left = Math.ceil(Math.max(...y.ticks.map(v => wide(label(v, y.log))), 18)) + 10, right = width - 12;
    const x = axis(chart.names ? [[-0.5, chart.names.length - 0.5]] : curves.map(c => c.x), chart.logX || false, left, right, false, Math.max(2, Math.floor((right - left) / 66)));
    if (chart.names) x.ticks = chart.names.map((_, i) => i);
    root.setAttribute('viewBox', `0 0 ${width} ${height}`);
    for (const v of x.ticks) {
      svg(root, 'path', {d: `M${x.at(v)} ${top}V${bottom}`, class: 'grid'});
      if (!chart.names) svg(root, 'text', {x: x.at(v), y: bottom + 17, 'text-anchor': 'middle', class: 'tick'}, label(v, x.log));
      else words(chart.names[v]).forEach((word, i) => svg(root, 'text', {x: x.at(v), y: bottom + 17 + 14 * i, 'text-anchor': 'middle', class: 'tick'}, word));
    }
    for (const v of y.ticks) {
      svg(root, 'path', {d: `M${left} ${y.at(v)}H${right}`, class: 'grid'});
      svg(root, 'text', {x: left - 7, y: y.at(v) + 4, 'text-anchor': 'end', class: 'tick'}, label(v, y.log));
    }
    svg(root, 'path', {d: `M${left} ${top}V${bottom}H${right}`, class: 'axis'});
    svg(root, 'text', {x: (left + right) / 2, y: height - 6, 'text-anchor': 'middle'}, chart.x);
    for (const b of bounds) svg(root, 'path', {d: `M${left} ${y.at(b.y)}H${right}`, class: 'bound'});

    for (const c of [...curves].sort((a, b) => (b.dots || false) - (a.dots || false))) {  // lines over points
      const points = c.x.map((v, i) => [x.at(v), y.at(c.y[i])]).filter(p => Number.isFinite(p[0]) && Number.isFinite(p[1]));
      if (!c.dots && points.length > 1) svg(root, 'path', {d: 'M' + points.map(p => p[0].toFixed(1) + ' ' + p[1].toFixed(1)).join('L'), style: `stroke: ${c.stroke}`, 'stroke-width': 2, 'stroke-dasharray': c.dashed ? '5 4' : 'none', fill: 'none', 'stroke-linejoin': 'round', class: 'curve'});
      if (c.low) c.x.forEach((v, i) => svg(root, 'path', {d: `M${x.at(v)} ${y.at(c.low[i])}V${y.at(c.high[i])}m-5 0h10M${x.at(v) - 5} ${y.at(c.low[i])}h10`, style: `stroke: ${c.stroke}; fill: none`, 'stroke-width': 1.4}));
      const open = c.dots && points.length <= 200, size = open ? 3 : c.dots ? 1.5 : 2.6;  // of many points circles are one thick line
      if (c.dots || points.length < 40) for (const p of points) svg(root, 'circle', {cx: p[0].toFixed(1), cy: p[1].toFixed(1), r: size, style: open ? `stroke: ${c.stroke}; fill: none` : `fill: ${c.stroke}`, 'stroke-width': 1.6, class: 'point'});
    }

    // the numbers under the pointer
    const dot = svg(root, 'circle', {r: 4.5, visibility: 'hidden', style: 'stroke: var(--card)', 'stroke-width': 1.5}), said = svg(root, 'text', {x: width, y: 14, 'text-anchor': 'end', class: 'said'});
    root.addEventListener('pointermove', e => {
      const box = root.getBoundingClientRect(), px = (e.clientX - box.left) / box.width * width, py = (e.clientY - box.top) / box.height * height;
      let best = Infinity;
      for (const c of curves) c.x.forEach((v, i) => {
        const far = Math.hypot(x.at(v) - px, 0.4 * (y.at(c.y[i]) - py));
        if (far >= best) return;
        best = far;
        dot.setAttribute('cx', x.at(v)); dot.setAttribute('cy', y.at(c.y[i])); dot.setAttribute('visibility', 'visible'); dot.style.fill = c.stroke;
        said.textContent = short(v) + ' \u2192 ' + short(c.y[i]);
      });
    });
    root.addEventListener('pointerleave', () => { dot.setAttribute('visibility', 'hidden'); said.textContent = ''; });
  }
  return {draw, short};
}());
