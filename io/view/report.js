'use strict';
// The pages of results: what a search found, what an audit or a check says, and the index of make demo. Everything that comes from files is
// set as text, never as HTML. Tests: tests/oracle/test_pages.py.
(function () {
  const data = JSON.parse(document.getElementById('data').textContent), main = document.getElementById('report'), result = data.result;
  const short = charts.short, known = x => typeof x === 'number';
  const plural = (n, word) => short(n) + ' ' + word + (n === 1 ? '' : 's');
  const sentence = text => text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.') : '';

  // ---- parts of a page ------------------------------------------------------------------------------------------------------
  function add(parent, name, text, kind) {
    const node = parent.appendChild(document.createElement(name));
    if (text !== undefined && text !== null) String(text).split('`').forEach((part, i) => {
      if (i % 2) node.appendChild(document.createElement('code')).textContent = part; else node.append(part);
    });
    if (kind) node.className = kind;
    return node;
  }
  const badge = (parent, text, good) => add(parent, 'span', text, 'badge' + (good === undefined ? '' : good ? ' good' : ' bad'));
  const of = what => what + (data.path && data.path !== data.title ? ' of ' + data.path : '');
  function heading(what, title, verdict, good, lines, facts) {
    const head = add(main, 'header');
    add(head, 'p', what, 'eyebrow');
    const name = head.appendChild(document.createElement('h1'));
    name.textContent = title;
    if (verdict) badge(head, verdict, good);
    for (const line of lines) if (line) add(head, 'p', line, 'lead');
    const list = add(head, 'dl', null, 'facts');
    for (const [term, value, more] of facts) {
      const one = add(list, 'div');
      add(one, 'dt', term);
      const said = add(one, 'dd', value);
      if (more) add(said, 'small', more);
    }
    list.hidden = !facts.length;
    return add(main, 'div', null, 'cards');
  }
  function card(cards, title, wide) {
    const one = add(cards, 'section', null, wide ? 'card wide' : 'card');
    if (title) add(one, 'h2', title);
    return one;
  }
  // A cell is a number, a text or {text, small, good, bad, ratio: 0 to 1}. columns: {name, number: right-aligned}.
  function cell(row, column, value) {
    const node = add(row, 'td', null, column.number ? 'number' : 'words'), nothing = value === '' || value === undefined, full = value !== null && typeof value === 'object';
    const shown = full ? value.text : value;
    node.dataset.name = column.name;
    if (column.number && typeof shown === 'string' && shown.length > 14) node.classList.add('long');
    if (nothing) node.classList.add('empty');
    if (full && value.verdict !== undefined) badge(node, shown, value.verdict);
    else node.append(known(shown) ? short(shown) : shown === null ? '\u2013' : shown);
    if (!full) return;
    if (value.bad) node.className += ' bad';
    if (value.small) add(node, 'div', value.small, 'small');
    if (known(value.ratio)) add(add(node, 'span', null, value.bad ? 'ratio bad' : 'ratio'), 'i').style.width = 100 * Math.max(0.02, Math.min(1, value.ratio)) + '%';
  }
  function table(parent, all, every) {
    // a column that says nothing of any row is left out
    const says = i => !i || every.some(r => !['', '\u2013', undefined].includes((r.cells || r)[i])), columns = all.filter((_, i) => says(i));
    const rows = every.map(r => ({aside: r.aside, cells: (r.cells || r).filter((_, i) => says(i))}));
    const sheet = add(add(parent, 'div', null, 'scroll'), 'table', null, columns.length > 4 || rows.some(r => r.cells.some(c => c && c.verdict !== undefined)) ? 'stack' : ''), head = sheet.createTHead().insertRow();
    for (const c of columns) { const name = add(head, 'th', c.name, c.number ? 'number' : ''); name.scope = 'col'; }
    const body = sheet.createTBody();
    for (const r of rows) {
      const row = body.insertRow();
      if (r.aside) row.className = 'aside';
      columns.forEach((c, i) => cell(row, c, r.cells[i]));
    }
    return sheet;
  }
  function notes(parent, lines) {
    const list = add(parent, 'ul', null, 'notes');
    for (const line of lines) add(list, 'li', line);
  }
  function repeat(cards, more) {
    if (!data.command && !more.length) return;
    const own = card(cards, 'To repeat it', true);
    if (data.command) own.appendChild(document.createElement('pre')).textContent = data.command;
    if (data.command) own.lastChild.className = 'command';
    for (const [text, command] of more) {
      add(own, 'p', text);
      if (!command) continue;
      own.appendChild(document.createElement('pre')).textContent = command;
      own.lastChild.className = 'command';
    }
  }
  function footer(extra) { add(main, 'footer', 'Made by Pullback ' + data.version + (extra || '') + '. This page is one file and needs no network.'); }

  // ---- pullback optimize ------------------------------------------------------------------------------------------------------
  const bound = (v, k) => {
    const low = v.lower ? v.lower[k] : null, high = v.upper ? v.upper[k] : null;
    if (!known(low) && !known(high)) return 'none';
    return known(low) && known(high) ? short(low) + ' to ' + short(high) : known(low) ? 'at least ' + short(low) : 'at most ' + short(high);
  };
  const SINGLE = 12;  // components of a variable that are told one by one
  function variables(cards) {
    const few = result.variables.filter(v => v.value.length <= SINGLE), many = result.variables.filter(v => v.value.length > SINGLE), rows = [];
    for (const v of few) v.value.forEach((value, k) => {
      const note = v.notes && v.notes[k];
      const sure = v.deviation && v.deviation[k], unsure = v.determined && v.determined[k], between = v.interval && v.interval[k];
      const said = unsure && unsure !== 'at bound' ? unsure : note || '';
      rows.push([v.components && v.components[k] || v.name + (v.value.length > 1 ? '[' + k + ']' : ''), v.start[k],
        {text: value, small: known(sure) ? '\u00b1 ' + short(+sure.toPrecision(2)) : '', bad: note === 'no influence' || note === 'kink' || unsure === 'not determined'},
        between && known(between[0]) ? short(+between[0].toPrecision(4)) + ' to ' + short(+between[1].toPrecision(4)) : '', bound(v, k), said]);
    });
    if (rows.length) table(card(cards, 'What was varied'), [{name: 'variable'}, {name: 'start', number: true}, {name: 'found', number: true}, {name: '95 % interval', number: true}, {name: 'bounds', number: true}, {name: 'note'}], rows);
    for (const v of many) curvesOf(card(cards, v.name), v);
  }
  // Of many components: curves over knots, one for each of a knot's numbers, else one over their numbers.
  function curvesOf(own, v) {
    const wide = v.knots > 1 ? v.value.length / v.knots : 1, knots = v.value.length / wide, list = [], shown = Math.min(wide, 8);
    const x = Array.from({length: knots}, (_, k) => k), column = (values, a) => x.map(k => values[k * wide + a]);
    for (let a = 0; a < shown; a++) list.push({name: wide > 1 ? 'number ' + a : 'found', x, y: column(v.value, a)});
    if (wide === 1) list.push({name: 'start', x, y: v.start, dashed: true, colour: 7});
    const edge = (values, words) => { const of = (values || []).filter(known), one = [...new Set(of)]; return one.length === 1 && of.length === v.value.length ? [{name: words + ' bound', y: one[0]}] : []; };
    charts.draw(own, {title: 'As it was found', x: v.knots > 1 ? 'knot' : 'component', y: 'value', curves: list, bounds: [...edge(v.lower, 'lower'), ...edge(v.upper, 'upper')]});
    const at = (v.notes || []).filter(n => n), kinds = [...new Set(at)];
    const said = kinds.map(n => at.filter(m => m === n).length + ' ' + n).join(', ');
    add(own, 'p', plural(v.value.length, 'component') + (wide > shown ? ', of which the first ' + shown + ' of each knot are drawn' : '') + (said ? '; ' + said : '') + '.', 'small');
  }
  // ---- recordings: what was measured, what the simulation reads there, and what is left ---------------------------------------
  const MOST_CHARTS = 8;
  function recordings(cards, list) {
    const shown = list.filter(r => r.recorded.some(known)).sort((a, b) => (a.test || false) - (b.test || false)).slice(0, MOST_CHARTS);
    for (const r of shown) {
      const own = card(cards, r.name + (r.component === undefined ? '' : '[' + r.component + ']') + (r.trajectory === undefined ? '' : ', trajectory ' + r.trajectory) + (r.test ? ' (kept out of the fit)' : ''));
      const there = r.time.map((_, k) => k).filter(k => known(r.recorded[k])), at = values => there.map(k => values[k]);
      if (!r.rotation) charts.draw(own, {title: 'Recording and fit', x: 'time [s]', y: 'value', logY: false, curves: [{name: 'simulated', x: r.time, y: r.simulated}, {name: 'recorded', x: at(r.time), y: at(r.recorded), dots: true, colour: 1}]});
      charts.draw(own, {title: r.rotation ? 'Rotation from the recording to the fit' : 'What is left', x: 'time [s]', y: 'simulated \u2212 recorded', logY: false,
        curves: [{name: 'deviation', x: at(r.time), y: there.map(k => r.simulated[k] - r.recorded[k]), dots: true, colour: 1}],
        bounds: known(r.sigma) ? [{name: 'two sigma', y: 2 * r.sigma}, {name: 'two sigma', y: -2 * r.sigma}] : []});
    }
    if (list.length > shown.length) add(card(cards, 'More recordings'), 'p', plural(list.length - shown.length, 'more component') + ' of recordings are in the fit and are not drawn.', 'small');
  }
  function sureness(cards, u, names) {
    const own = card(cards, 'How sure the answer is');
    if (u.why_none) return notes(own, ['It is not known: ' + u.why_none + '.']);
    const rows = [['samples', u.samples], ['degrees of freedom', u.degrees_of_freedom], [u.sigma === 'stated' ? 'chi-square for each degree of freedom (1 but for chance)' : 'variance of the deviations', u.chi_square],
      ['root mean square of the deviations', u.residual], ['correlation of neighbors in time (0 but for chance)', u.autocorrelation], ['condition', u.condition]];
    table(own, [{name: ''}, {name: '', number: true}], rows.map(([name, value]) => [name, known(value) ? short(+value.toPrecision(3)) : '\u2013']));
    notes(own, [u.sigma === 'stated' ? 'Intervals follow from the stated sigma.' : 'Sigma is estimated from what is left.', ...(u.weakest ? [sentence(u.weakest)] : []), ...(u.warning ? [sentence(u.warning)] : [])]);
    if (names.length > 1 && names.length <= 24) heat(card(cards, 'Correlations'), u.correlations, names);
  }
  // The number of each pair on a bar of its size, in one color where both grow together, in another where one grows as the other falls.
  function heat(own, matrix, names) {
    const sheet = add(add(own, 'div', null, 'scroll'), 'table', null, 'heat'), head = sheet.createTHead().insertRow(), body = sheet.createTBody();
    add(head, 'th', '');
    names.forEach((name, k) => { const one = add(head, 'th', String(k + 1)); one.title = name; one.scope = 'col'; });
    matrix.forEach((row, i) => {
      const line = body.insertRow(), first = add(line, 'th', (i + 1) + ' ' + names[i]);
      first.scope = 'row';
      row.forEach((value, k) => {
        const field = add(line, 'td', known(value) ? String(+value.toFixed(2)).replace('-', '\u2212') : '\u2013', 'heat');
        field.title = names[i] + ', ' + names[k];
        if (known(value)) field.style.boxShadow = `inset 0 -${Math.round(7 * Math.abs(value))}px var(${value > 0 ? '--curve-0' : '--curve-1'})`;
      });
    });
  }
  function starts(cards, s) {
    const own = card(cards, 'Several starts');
    table(own, [{name: 'start', number: true}, {name: 'loss there', number: true}, {name: 'loss found', number: true}, {name: 'how it ended'}], s.searches.slice(0, 40).map((one, k) => ({aside: k !== s.best, cells: [k, one.start_loss, one.loss, one.outcome]})));
    add(own, 'p', plural(s.agree, 'start') + ' of ' + s.searches.length + ' came to the least loss, to 1 %.', 'small');
  }
  function certificate(own, c) {
    if (c.error) return notes(own, ['There is no gradient at the answer: ' + c.error]);
    const said = [];
    if (c.spot_checked) said.push((c.spot_off ? 'The gradient (' + c.mode + ') was found to be wrong: ' : 'The gradient (' + c.mode + ') agrees with differences of the simulation: ') + 'relative error ' + short(c.spot_error) + ', limit ' + short(c.spot_limit) + (c.spot_where ? ', ' + c.spot_where : '') + '.');
    else said.push('The gradient (' + c.mode + ') was not compared with differences' + (c.checked === 'none' ? '.' : ': no reliable difference was to be had.'));
    if (c.worst_residual_step >= 0) said.push((c.unconverged ? plural(c.unconverged, 'step') + ' did not converge; worst' : 'Every step was solved to rounding: worst') + ' relative residual ' + short(c.worst_residual) + ' at step ' + c.worst_residual_step + (c.unconverged && c.worst_row ? ' (' + c.worst_row + ')' : '') + '.');
    if (c.most_contacts) said.push('At most ' + plural(c.most_contacts, 'contact') + ' at a time; ' + plural(c.onsets, 'onset') + ', ' + plural(c.releases, 'release') + (c.penetration > 0 ? '; deepest overlap ' + short(1e3 * c.penetration) + ' mm at step ' + c.penetration_step : '') + '.');
    if (c.ties) said.push(plural(c.ties, 'step') + ' with ties of features, where the gradient is that of one side; the first at step ' + c.tie_step + (c.tie_contact ? ': ' + c.tie_contact : '') + '.');
    if (c.kinks) said.push(plural(c.kinks, 'step') + ' at a kink of an energy; the first at step ' + c.kink_step + (c.kink_element ? ': ' + c.kink_element : '') + '.');
    if (known(c.growth)) said.push('Over ' + plural(c.steps, 'step') + ' the costate changes by a factor of ' + short(c.growth) + ' on its way back.');
    if (c.truncation) said.push('Truncated: ' + c.truncation + '.');
    notes(own, said);
  }
  // The viewer in a frame: what was found, and the recording as its ghost.
  function playback(cards, motion) {
    const several = known(motion.trajectory), own = card(cards, 'The motion that was found, beside the recording' + (several ? ', trajectory ' + motion.trajectory : ''), true);
    if (!motion.page) { add(own, 'p', 'There is no picture of it: ' + sentence(motion.why_none)); return; }
    const frame = add(own, 'iframe', null, 'motion');
    frame.title = 'the motion that was found, and what was recorded as a ghost';
    frame.srcdoc = motion.page.replace('<html ', '<html data-inset ');
    add(own, 'p', 'Translucent: where the recording has the bodies at the same time. Drag to look at them from elsewhere.' +
      (several ? ' This is the first trajectory with recorded positions of ' + motion.trajectories + ', counted from 0.' : ''), 'small');
  }
  // One curve, or one for each stage: their losses are not of one kind.
  function losses(r, x, y) {
    if (!r.stages || !r.stages.length) return [{name: 'loss', x, y: [r.start_loss, ...y]}];
    let from = 0;
    return r.stages.map((s, k) => {
      const to = from + s.iterations, last = k === r.stages.length - 1;
      const rows = r.history.filter(h => h[0] > from && (last || h[0] <= to)), curve = {name: s.name, x: [from, ...rows.map(h => h[0])], y: [s.start_loss, ...rows.map(h => h[2])], colour: k};
      from = to;
      return curve;
    });
  }
  function optimize() {
    const r = result, done = ['criteria met', 'converged'].includes(r.outcome), open = r.outcome === 'iteration limit' && !r.noise;
    const gain = r.start_loss > 0 && r.loss > 0 && r.start_loss / r.loss >= 2 ? ': ' + short(+(r.start_loss / r.loss).toPrecision(3)) + ' times less' : '';
    const cards = heading(of('Optimization'), data.title, r.outcome[0].toUpperCase() + r.outcome.slice(1), open ? undefined : done, [sentence(r.reason)], [
      ['loss found', short(r.loss), short(r.start_loss) + ' at the start' + gain], ['iterations', short(r.iterations)],
      ['simulations', short(r.simulations), short(r.gradients) + ' with gradients'],
      ['time', short(+r.seconds.toPrecision(3)) + ' s', r.resumed ? 'resumed' : ''],
      ...(known(r.test_loss) ? [['loss on what was kept out', short(r.test_loss)]] : [])]);

    if (data.motion) playback(cards, data.motion);
    const row = k => r.history.map(h => h[k]), way = card(cards, 'How it went'), x = [0, ...row(0)];
    charts.draw(way, {title: 'Loss by iteration', x: 'iteration', y: 'least loss so far', curves: losses(r, x, row(2))});
    if (r.stages) table(way, [{name: 'stage'}, {name: 'steps', number: true}, {name: 'iterations', number: true}, {name: 'loss at its start', number: true}, {name: 'loss', number: true}, {name: 'outcome'}],
      r.stages.map(s => [s.name, s.steps, s.iterations, s.start_loss, s.loss, s.outcome]));
    const slopes = r.history.filter((h, i) => known(h[3]) && h[3] > 0 && !(r.history[i + 1] && r.history[i + 1][0] === h[0]));
    if (slopes.length > 1) charts.draw(way, {title: 'Gradient by iteration', x: 'iteration', y: 'largest entry of the gradient', curves: [{name: 'gradient', x: slopes.map(h => h[0]), y: slopes.map(h => h[3]), colour: 1}], logY: true});

    variables(cards);
    if (r.uncertainty) sureness(cards, r.uncertainty, r.uncertainty.correlated || []);
    if (data.recordings && data.recordings.length) recordings(cards, data.recordings);
    if (r.starts) starts(cards, r.starts);
    const sum = r.terms.reduce((s, t) => s + Math.abs(t.value || 0), 0), several = r.terms.some(t => t.trajectory !== undefined);
    table(card(cards, 'What the loss is made of'), [{name: 'term'}, ...(several ? [{name: 'trajectory', number: true}] : []), {name: 'value', number: true}, {name: 'largest deviation', number: true}],
      r.terms.map(t => [t.name, ...(several ? [t.trajectory] : []), {text: t.value, ratio: sum > 0 && r.terms.length > 1 ? Math.abs(t.value) / sum : undefined}, t.deviation]));

    const advice = [...r.advice, ...(r.noise ? [r.noise.verdict, r.noise.proposal] : [])];
    const said = card(cards, advice.length ? 'What to know, and what to try' : 'What to know');
    notes(said, advice.length ? advice : [done ? 'Nothing to add: every variable counts, and none stands at a kink.' : 'Nothing beyond how it ended.']);
    if (r.confirm && r.confirm.ran) {
      const own = card(cards, 'Run again at a finer time step');
      table(own, [{name: ''}, {name: 'as found', number: true}, {name: 'at ' + short(r.confirm.timestep) + ' s', number: true}], [['loss', r.loss, r.confirm.loss],
        ...r.terms.map((t, i) => [t.name + ': largest deviation', t.deviation, r.confirm.terms[i].deviation])]);
    }
    const proof = card(cards, 'Certificate of the gradient at the answer');
    r.certificates.forEach((c, t) => { if (r.certificates.length > 1) add(proof, 'h3', 'Trajectory ' + t); certificate(proof, c); });
    const files = r.trajectory_files || [], at = data.command ? data.command.split(' ') : [];
    repeat(cards, files.length && at.length > 2 ? [['The motion that was found, to be watched:', 'pullback view ' + data.path + ' ' + files[0] + ' -o motion.html']] : []);
    footer();
  }

  // ---- pullback audit ---------------------------------------------------------------------------------------------------------
  function audit() {
    const r = result, ran = r.runs.filter(run => run.ran), trained = r.runs[0], unit = r.unit ? ' ' + r.unit : '';
    const allowed = Math.max(r.tolerance * Math.abs(known(r.gained) ? r.gained : trained.mean), r.tolerance_absolute || 0);
    const [, ...reasons] = r.verdict.split(/: (.*)/s), parts = reasons.join('').split('; ');
    const cards = heading(of('Audit'), data.title, r.confirmed ? 'Confirmed' : 'Not confirmed', r.confirmed, r.confirmed ? [sentence(parts.join('; '))] : ['What does not hold:'], [
      [r.objective + ' as trained', short(+trained.mean.toPrecision(5)) + unit, '\u00b1 ' + short(+trained.deviation.toPrecision(3)) + ' over ' + plural(r.starts, 'start')],
      ['may differ by', short(+allowed.toPrecision(3)) + unit, short(100 * r.tolerance) + ' % of ' + (known(r.gained) ? 'what was gained' : 'it')],
      ['energy that may be missing', short(100 * r.ledger_limit) + ' %', 'of the work'], ['seed', short(r.seed)]]);
    if (!r.confirmed) notes(main.querySelector('header'), parts.map(sentence));
    const limit = (value, most, factor, words, why) => !known(value) || !most ? '\u2013' : {text: short(+(factor * value).toPrecision(4)) + words, small: 'of ' + short(+(factor * most).toPrecision(4)) + (why ? ', ' + why : ''), ratio: value / most, bad: value > most * (1 + 1e-9)};
    const off = run => Math.abs(run.mean - trained.mean) > allowed * (1 + 1e-9) && (r.better || 0) * (run.mean - trained.mean) <= 0;
    const holds = run => !run.failed && !off(run) && !(run.penetration > run.penetration_limit) && !(run.torque > run.torque_limit * (1 + 1e-9)) &&
      !(run.stop && run.stop.value > run.stop.limit) && !(run.joint_force && run.joint_force.value > run.joint_force.limit * (1 + 1e-9)) && !(run.ledger && run.ledger.gap > r.ledger_limit);
    table(card(cards, 'Run again, beside the limits', true), [{name: 'run'}, {name: 'verdict'}, {name: r.objective + (r.unit ? ' [' + r.unit + ']' : ''), number: true}, {name: 'change', number: true}, {name: 'overlap', number: true},
      {name: 'force of an actuator', number: true}, {name: 'stops and joints', number: true}, {name: 'starts that fail', number: true}], r.runs.map(run => ({aside: !run.counts, cells: !run.ran ? [run.name, {text: 'not run', small: run.why}, '', '', '', '', '', ''] : [
      {text: run.name, small: 'time step ' + short(run.timestep) + ' s'}, run.counts ? {text: holds(run) ? 'holds' : 'does not hold', verdict: holds(run)} : 'reported',
      {text: short(+run.mean.toPrecision(5)), small: '\u00b1 ' + short(+run.deviation.toPrecision(3)), bad: run.counts && off(run)}, run === trained ? '' : short(+(run.mean - trained.mean).toPrecision(3)),
      limit(run.penetration, run.penetration_limit, 1e3, ' mm', ''), limit(run.torque, run.torque_limit, 1, '', run.actuator),
      run.joint_force ? limit(run.joint_force.value, run.joint_force.limit, 1, '', run.joint_force.name) : run.stop ? limit(run.stop.value, run.stop.limit, 1, '', run.stop.name) : '\u2013',
      {text: run.failed + ' of ' + run.ran, bad: run.counts && run.failed > 0, small: run.failed ? run.why : ''}]})));

    const whole = card(cards, 'The objective in each run'), at = ran.map((_, i) => i);
    charts.draw(whole, {title: sentence(r.objective).replace(/\.$/, '') + ', by run', x: 'run', names: ran.map(run => run.name), y: 'mean over the starts' + (r.unit ? ' [' + r.unit + ']' : ''), logY: false,
      curves: [{name: 'mean, and from the least to the most', x: at, y: ran.map(run => run.mean), low: ran.map(run => run.least), high: ran.map(run => run.most), dots: true}],
      bounds: [{name: 'may differ so far', y: trained.mean + allowed}, {name: 'may differ so far', y: trained.mean - allowed}]});
    const books = card(cards, 'Where the energy goes'), kept = ran.filter(run => run.ledger);
    if (kept.length) {
      table(books, [{name: 'run'}, {name: 'work [J]', number: true}, {name: 'change of energy [J]', number: true}, {name: 'dissipated [J]', number: true}, {name: 'missing', number: true}], kept.map(run => ({aside: !run.counts, cells: [run.name,
        short(+run.ledger.work.toPrecision(4)), short(+run.ledger.energy.toPrecision(4)), short(+run.ledger.taken.toPrecision(4)),
        {text: short(+(100 * run.ledger.gap).toPrecision(2)) + ' %', ratio: run.ledger.gap / r.ledger_limit, bad: run.counts && run.ledger.gap > r.ledger_limit}]})));
      add(books, 'p', 'Means over the starts. Work that is done becomes energy of the world or is dissipated; what is missing from that is told as a part of the work, limit ' + short(100 * r.ledger_limit) + ' %.', 'small');
    } else add(books, 'p', 'No ledger is kept' + (r.why_no_ledger ? ': ' + r.why_no_ledger : '') + '.');
    repeat(cards, []);
    footer();
  }

  // ---- pullback check ---------------------------------------------------------------------------------------------------------
  function check() {
    const r = result, failed = r.checks.filter(c => !c.holds), tried = r.checks.filter(c => c.cases && c.limit > 0), share = c => c.worst / c.limit;
    const worst = [...tried].sort((a, b) => share(b) - share(a))[0], left = r.checks.reduce((n, c) => n + c.left_out, 0);
    const cards = heading(of('Check of the gradients'), data.title, failed.length ? failed.length + ' of ' + r.checks.length + ' checks fail' : 'All ' + r.checks.length + ' checks hold', !failed.length,
      [failed.length ? 'Forward, reverse and finite differences of the program do not agree.' : 'Forward mode, reverse mode and finite differences of the program agree within their limits.'], [
        ['steps', short(r.steps)], ['contacts at a time', short(r.most_contacts), 'at most'], ['cases', short(r.checks.reduce((n, c) => n + c.cases, 0)), left ? plural(left, 'case') + ' left out, with the reason' : 'none left out'],
        ...(worst ? [['nearest to its limit', short(+(100 * share(worst)).toPrecision(2)) + ' %', worst.name]] : [])]);
    const scale = c => !c.cases || !(c.limit > 0) ? undefined : c.worst > 0 ? 1 + Math.log10(share(c)) / 12 : 0;
    table(card(cards, 'What was compared', true), [{name: 'comparison'}, {name: 'verdict'}, {name: 'worst error', number: true}, {name: 'cases', number: true}],
      [...r.checks].sort((a, b) => a.holds - b.holds).map(c => [{text: c.name, small: c.holds ? '' : c.words}, {text: c.cases ? c.holds ? 'holds' : 'fails' : 'not tried', verdict: c.cases || !c.holds ? c.holds : undefined},
        {text: c.worst, small: c.limit > 0 ? 'limit ' + short(c.limit) + (c.step < 0 ? '' : ', at step ' + c.step) : '', ratio: scale(c), bad: !c.holds}, {text: c.cases, small: c.left_out ? short(c.left_out) + ' left out' : ''}]));
    add(main.querySelector('.card.wide'), 'p', 'Bars: errors on a scale of powers of ten, from a millionth of a millionth of the limit to the limit.', 'small');

    if (worst) {
      const own = card(cards, 'Nearest to their limits');
      table(own, [{name: 'comparison'}, {name: 'error / limit', number: true}], [...tried].sort((a, b) => share(b) - share(a)).slice(0, 6).map(c => [c.name, {text: share(c), bad: !c.holds}]));
    }
    const gradient = card(cards, 'Of the rollout');
    table(gradient, [{name: ''}, {name: '', number: true}], [['worst relative residual of the solver', r.worst_residual], ['deepest overlap [mm]', known(r.penetration) ? 1e3 * r.penetration : null],
      ['growth of the costate over the rollout', r.growth], ['its rate [1/s]', r.growth_rate]]);
    const named = card(cards, 'Kinks and other findings, by name', true);
    if (r.findings.length) for (const f of r.findings) { add(named, 'h3', f.what[0].toUpperCase() + f.what.slice(1) + ': ' + f.where); add(named, 'p', sentence(f.why)); }
    else add(named, 'p', 'None: no kink, tie, onset or deep overlap was met.');
    const omitted = r.checks.filter(c => c.holds && c.words);
    if (omitted.length) {
      const own = card(cards, 'Left out, and why', true);
      for (const c of omitted) { add(own, 'h3', c.name); notes(own, c.words.replace(/^left out: /, '').split('; ')); }
    }
    repeat(cards, []);
    footer();
  }

  const kinds = {optimize, audit, check};
  if (kinds[data.kind]) kinds[data.kind]();
  window.report = {data, add, badge, heading, card, table, notes, footer, sentence};
}());
