'use strict';
// The index of make demo: what stands on the page comes from tools/demo_page.py. Tests: tests/oracle/test_demo.py.
(function () {
  const {data, add, badge, table, footer} = window.report, main = document.getElementById('report');
  const head = add(main, 'header');
  add(head, 'p', 'Pullback ' + data.version + ': what `make demo` computed on this machine', 'eyebrow');
  add(head, 'h1', 'Found by gradient, through contact');
  add(head, 'p', data.lead, 'lead');

  // ---- pictures: each is the viewer with one frame, made when it is about to be seen; a click plays it -------------------------
  const hero = add(main, 'div', null, 'hero');
  const open = new IntersectionObserver(seen => {
    for (const entry of seen) {
      if (!entry.isIntersecting) continue;
      open.unobserve(entry.target);
      const part = data.parts[entry.target.dataset.part], frame = document.createElement('iframe');
      frame.title = part.title + ', drawn: a click plays it';
      frame.srcdoc = part.page[0].replace('<html ', `<html data-poster="${part.poster}" `) + data.library + part.page[1];
      entry.target.appendChild(frame);
    }
  }, {rootMargin: '200px'});
  data.parts.forEach((part, i) => {
    if (!part.page) return;
    const robot = add(hero, 'figure', null, 'robot'), picture = add(robot, 'div', null, 'picture'), words = add(robot, 'figcaption');
    picture.dataset.part = i;
    add(words, 'a', part.title).href = '#' + part.name;
    add(words, 'span', part.caption);
    open.observe(picture);
  });

  const small = Math.max(0, hero.childElementCount - 2), over = small % 3;
  [...hero.children].slice(2).forEach((robot, i) => { if (i >= small - over) robot.style.setProperty('--span', 12 / over); });

  // ---- a section for each part: words and numbers beside their bounds on one side, curves on the other --------------------------
  for (const part of data.parts) {
    const own = add(main, 'section', null, 'part'), sides = add(own, 'div', null, 'sides'), left = add(sides, 'div'), right = add(sides, 'div');
    own.id = part.name;
    const holds = part.rows.every(r => r[r.length - 1] !== false);
    add(left, 'h2', part.title);
    if (part.rows.some(r => typeof r[r.length - 1] === 'boolean')) add(left, 'p').appendChild(badge(left, holds ? 'within its bounds' : 'outside its bounds', holds));
    for (const text of part.text) add(left, 'p', text);
    const verdict = ok => typeof ok === 'boolean' ? {text: ok ? 'holds' : 'does not hold', verdict: ok} : '';
    const columns = part.columns.map((name, k) => ({name, number: k > 0 && k < part.columns.length - 1}));
    table(left, columns, part.rows.map(r => [...r.slice(0, -1), verdict(r[r.length - 1])]));
    for (const chart of part.charts) charts.draw(right, chart);
    if (!part.charts.length) { left.className = 'whole'; right.hidden = true; }
    if (part.viewer) { const line = add(left, 'p'); add(line, 'a', 'Open it in the viewer').href = part.viewer; line.append(', with contacts, forces and all numbers over time.'); }
    const again = add(sides, 'div', null, 'whole');
    for (const command of part.commands) add(again, 'pre', null, 'command').textContent = command;
  }
  if (data.rest) add(main, 'p', data.rest, 'small');
  footer(', three.js draws the pictures');
}());
