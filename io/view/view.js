'use strict';
(function () {
  const byId = id => document.getElementById(id);
  // As a picture in another page: one frame without controls, which plays where it is clicked. data-poster of the root element: the part of
  // the motion that has passed, and where it is looked at from (azimuth, elevation, distance by the usual one).
  const poster = document.documentElement.dataset.poster === undefined ? null : document.documentElement.dataset.poster.split(' ').map(Number);
  // As a part of another page: the motion with its bar and its ghost, nothing else.
  const inset = document.documentElement.dataset.inset !== undefined;
  const dark = window.matchMedia('(prefers-color-scheme: dark)').matches;
  const data = JSON.parse(byId('data').textContent);
  byId('version').textContent = data.version;

  const short = value => String(+value.toPrecision(5));
  const stage = byId('stage');
  if (data.panel && !poster) {
    const panel = byId('aside'), heading = panel.appendChild(document.createElement('h1')), text = panel.appendChild(document.createElement('p'));
    document.body.className = 'beside';
    heading.textContent = data.panel.title;
    text.textContent = data.panel.text;
    for (const curve of data.panel.curves) charts.draw(panel, {title: curve.name, x: data.panel.axis, y: '', curves: [curve]});
  }
  if (!data.time) {
    byId('name').textContent = data.title;
    byId('message').textContent = 'There is no motion to be seen: ' + data.panel.no_motion;
    byId('bar').hidden = byId('panel').hidden = true;
    return;
  }

  // ---- the motion ------------------------------------------------------------------------------------------------------
  const frames = data.time.length, bodies = data.bodies.length, end = data.time[frames - 1];
  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  const floats = text => new Float32Array(bytes(text).buffer);
  const rest = floats(data.rest), moved = floats(data.poses);  // (bodies, 7), (movers, frames, 7): position, quaternion w x y z
  const touch = data.contacts ? floats(data.contacts.places) : null, WIDE = 11;
  const bodyName = b => data.bodies[b] || (b ? 'body ' + b : 'world');
  const geomName = g => data.bodygeoms[g] || 'geom ' + g + ' of ' + bodyName(data.geom_body[g]);

  const title = byId('name'), small = document.createElement('small');
  title.textContent = data.title + ' ';
  small.textContent = (data.moving ? frames + ' frames, ' : '') + data.geoms.length + ' shapes';
  title.appendChild(small);
  byId('bar').hidden = !data.moving;
  byId('panel').className = data.moving ? '' : 'still';
  if (inset) document.body.classList.add('inset');

  // ---- quaternions (w x y z) and the tree of joints: where bodies are for given positions of joints ---------------------
  const mulQuat = (a, b) => [a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3], a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
    a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1], a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]];
  const turn = (q, v) => {
    const [w, x, y, z] = q, t = [w * v[0] + y * v[2] - z * v[1], w * v[1] + z * v[0] - x * v[2], w * v[2] + x * v[1] - y * v[0]];
    return [v[0] + 2 * (y * t[2] - z * t[1]), v[1] + 2 * (z * t[0] - x * t[2]), v[2] + 2 * (x * t[1] - y * t[0])];
  };
  const plus = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]], minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
  const times = (s, a) => a.map(x => s * x), unit = q => { const n = Math.hypot(...q); return n > 0 ? q.map(x => x / n) : [1, 0, 0, 0].slice(0, q.length); };
  const about = (axis, angle) => [Math.cos(angle / 2), ...times(Math.sin(angle / 2), unit(axis))];
  const three = (list, i) => list.slice(3 * i, 3 * i + 3), four = (list, i) => unit(list.slice(4 * i, 4 * i + 4));

  const jointsOf = data.bodies.map(() => []);
  data.joints.forEach(j => jointsOf[j.body].push(j));
  function applyJoint(j, qpos, at) {
    const q = qpos.slice(j.qpos, j.qpos + 7);
    if (j.type === 0) return {pos: q.slice(0, 3), quat: unit(q.slice(3, 7))};
    if (j.type === 2) return {pos: plus(at.pos, times(q[0] - data.qpos0[j.qpos], turn(at.quat, unit(j.axis)))), quat: at.quat};
    const anchor = plus(at.pos, turn(at.quat, j.pos));
    const quat = mulQuat(at.quat, j.type === 1 ? unit(q.slice(0, 4)) : about(j.axis, q[0] - data.qpos0[j.qpos]));
    return {pos: minus(anchor, turn(quat, j.pos)), quat};
  }
  function kinematics(qpos, k = 0) {  // mocap bodies as in frame k
    const all = [{pos: [0, 0, 0], quat: [1, 0, 0, 0]}];
    for (let b = 1; b < bodies; b++) {
      const parent = all[data.body_parentid[b]];
      let at = {pos: plus(parent.pos, turn(parent.quat, three(data.body_pos, b))), quat: mulQuat(parent.quat, four(data.body_quat, b))};
      if (data.mocap.includes(b)) at = poseAt(b, k);
      for (const j of jointsOf[b]) at = applyJoint(j, qpos, at);
      all.push({pos: at.pos, quat: unit(at.quat)});
    }
    return all;
  }
  function centers(poses) {  // of mass, of the subtree of each body
    const mass = data.body_mass.slice(), sum = poses.map((p, b) => times(mass[b], plus(p.pos, turn(p.quat, three(data.body_ipos, b)))));
    for (let b = bodies - 1; b > 0; b--) { const p = data.body_parentid[b]; mass[p] += mass[b]; sum[p] = plus(sum[p], sum[b]); }
    return sum.map((s, b) => mass[b] > 0 ? times(1 / mass[b], s) : poses[b].pos);
  }

  // ---- the renderer ------------------------------------------------------------------------------------------------------
  let renderer;
  try {
    renderer = new THREE.WebGLRenderer({antialias: true});
  } catch (error) {
    byId('message').textContent = 'This browser offers no WebGL, which the picture needs.\n\n' + data.title + ': ' + (bodies - 1) + ' bodies, ' +
      data.joints.length + ' joints, ' + data.geoms.length + ' shapes' + (data.moving ? ', ' + frames + ' frames until ' + end.toFixed(3) + ' s' : '') +
      '.\n--glb writes the scene for other programs.';
    byId('bar').hidden = byId('panel').hidden = true;
    return;
  }
  byId('revision').textContent = 'r' + THREE.REVISION;
  const modern = +THREE.REVISION >= 155, light = modern ? Math.PI : 1;  // lights are in physical units since
  if (!modern) { renderer.gammaOutput = true; renderer.gammaFactor = 2.2; }
  const colour = (r, g, b) => { const c = new THREE.Color(); return modern ? c.setRGB(r, g, b, THREE.SRGBColorSpace) : c.setRGB(r, g, b).convertSRGBToLinear(); };
  const hex = n => colour((n >> 16 & 255) / 255, (n >> 8 & 255) / 255, (n & 255) / 255);
  renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2));
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFSoftShadowMap;
  renderer.domElement.id = 'picture';
  renderer.domElement.tabIndex = 0;
  renderer.domElement.setAttribute('role', 'img');
  renderer.domElement.setAttribute('aria-label', data.title + ', drawn');
  stage.insertBefore(renderer.domElement, stage.firstChild);

  const scene = new THREE.Scene(), air = dark ? 0x1c2630 : 0xd6dee7, sky = hex(air);
  scene.background = modern ? sky : new THREE.Color(air);  // the older library takes it as it comes
  scene.fog = new THREE.Fog(scene.background, 1, 2);
  scene.add(new THREE.HemisphereLight(hex(0xffffff), hex(0xb8b0a4), 0.62 * light));
  const sun = new THREE.DirectionalLight(hex(0xfffaf0), 0.75 * light), fill = new THREE.DirectionalLight(hex(0xe4ecff), 0.22 * light);
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  sun.shadow.bias = -0.0015;
  if (modern) sun.shadow.normalBias = 0.5 * data.extent / 500;
  scene.add(sun, sun.target, fill, fill.target);

  // ---- surfaces ----------------------------------------------------------------------------------------------------------
  function geometry(position, normal, index) {
    const g = new THREE.BufferGeometry();
    g.setAttribute('position', new THREE.BufferAttribute(position, 3));
    g.setAttribute('normal', new THREE.BufferAttribute(normal, 3));
    if (index) g.setIndex(new THREE.BufferAttribute(index, 1));
    return g;
  }
  // Of revolution about z: a profile of (radius, height, normal's radius, normal's height); equal neighbours in place make an edge.
  function revolve(profile, around) {
    const n = profile.length, position = [], normal = [], index = [];
    for (let k = 0; k <= around; k++) {
      const c = Math.cos(2 * Math.PI * k / around), s = Math.sin(2 * Math.PI * k / around);
      for (const [r, z, nr, nz] of profile) { position.push(r * c, r * s, z); normal.push(nr * c, nr * s, nz); }
    }
    for (let k = 0; k < around; k++) for (let i = 0; i + 1 < n; i++) {
      const a = k * n + i, b = a + n, edge = profile[i][0] === profile[i + 1][0] && profile[i][1] === profile[i + 1][1];
      if (edge) continue;
      if (profile[i][0] > 0) index.push(a, b, a + 1);
      if (profile[i + 1][0] > 0) index.push(b, b + 1, a + 1);
    }
    return geometry(new Float32Array(position), new Float32Array(normal), new Uint32Array(index));
  }
  function arc(from, to, steps, radius, middle) {
    return Array.from({length: steps + 1}, (_, i) => {
      const a = from + (to - from) * i / steps, pole = Math.abs(Math.cos(a)) < 1e-9;
      return [pole ? 0 : radius * Math.cos(a), radius * Math.sin(a) + middle, Math.cos(a), Math.sin(a)];
    });
  }
  const capsule = (r, h) => revolve([...arc(-Math.PI / 2, 0, 10, r, -h), ...arc(0, Math.PI / 2, 10, r, h)], 32);
  const ball = () => revolve(arc(-Math.PI / 2, Math.PI / 2, 20, 1, 0), 32);
  const can = () => revolve([[0, -1, 0, -1], [1, -1, 0, -1], [1, -1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 1], [0, 1, 0, 1]], 40);
  function brick() {
    const position = [], normal = [], index = [];
    for (let axis = 0; axis < 3; axis++) for (const side of [-1, 1]) {
      const u = (axis + 1) % 3, v = (axis + 2) % 3, at = position.length / 3;
      for (const [a, b] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
        const x = [0, 0, 0], n = [0, 0, 0];
        x[axis] = n[axis] = side; x[u] = a * side; x[v] = b;
        position.push(...x); normal.push(...n);
      }
      index.push(at, at + 1, at + 2, at, at + 2, at + 3);
    }
    return geometry(new Float32Array(position), new Float32Array(normal), new Uint16Array(index));
  }
  function sheet(u, v) {  // with texture coordinates in metres
    const g = geometry(new Float32Array([-u, -v, 0, u, -v, 0, u, v, 0, -u, v, 0]), new Float32Array([0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1]), new Uint16Array([0, 1, 2, 0, 2, 3]));
    g.setAttribute('uv', new THREE.BufferAttribute(new Float32Array([-u, -v, u, -v, u, v, -u, v]), 2));
    return g;
  }
  // A mesh on its grid: triangles that meet at less than 40 degrees share a normal at their corner, others have an edge there.
  function unpack(m) {
    const raw = bytes(m.points), list = bytes(m.triangles);
    const points = new Uint16Array(raw.buffer), index = m.wide ? new Uint32Array(list.buffer) : new Uint16Array(list.buffer);
    const corners = index.length, count = points.length / 3, face = new Float32Array(corners), start = new Uint32Array(count + 2);
    for (let i = 0; i < corners; i += 3) {
      const a = 3 * index[i], b = 3 * index[i + 1], c = 3 * index[i + 2];
      const ux = points[b] - points[a], uy = points[b + 1] - points[a + 1], uz = points[b + 2] - points[a + 2];
      const vx = points[c] - points[a], vy = points[c + 1] - points[a + 1], vz = points[c + 2] - points[a + 2];
      face[i] = uy * vz - uz * vy; face[i + 1] = uz * vx - ux * vz; face[i + 2] = ux * vy - uy * vx;
    }
    for (let i = 0; i < corners; i++) start[index[i] + 2]++;
    for (let i = 2; i < count + 2; i++) start[i] += start[i - 1];
    const at = new Uint32Array(corners), size = new Float32Array(corners / 3);
    for (let i = 0; i < corners; i++) at[start[index[i] + 1]++] = i;
    for (let i = 0; i < corners; i += 3) size[i / 3] = Math.sqrt(face[i] * face[i] + face[i + 1] * face[i + 1] + face[i + 2] * face[i + 2]);

    // corners of a point with the same normal become one
    const position = new Uint16Array(3 * corners), normal = new Float32Array(3 * corners), out = new Uint32Array(corners);
    let made = 0;
    for (let v = 0; v < count; v++) {
      const first = made;
      for (let own = start[v]; own < start[v + 1]; own++) {
        const corner = at[own], base = corner - corner % 3, fx = face[base], fy = face[base + 1], fz = face[base + 2], least = 0.766 * size[base / 3];
        let x = 0, y = 0, z = 0, same = first;
        for (let k = start[v]; k < start[v + 1]; k++) {
          const f = at[k] - at[k] % 3, gx = face[f], gy = face[f + 1], gz = face[f + 2];
          if (fx * gx + fy * gy + fz * gz < least * size[f / 3]) continue;
          x += gx; y += gy; z += gz;
        }
        const n = Math.sqrt(x * x + y * y + z * z) || 1;
        x /= n; y /= n; z /= n;
        while (same < made && normal[3 * same] * x + normal[3 * same + 1] * y + normal[3 * same + 2] * z < 0.9999) same++;
        if (same === made) {
          normal[3 * made] = x; normal[3 * made + 1] = y; normal[3 * made + 2] = z;
          position[3 * made] = points[3 * v]; position[3 * made + 1] = points[3 * v + 1]; position[3 * made + 2] = points[3 * v + 2];
          made++;
        }
        out[corner] = same;
      }
    }
    return geometry(position.slice(0, 3 * made), normal.slice(0, 3 * made), made > 65536 ? out : new Uint16Array(out));
  }
  const made = {};
  const once = (key, make) => made[key] || (made[key] = make());
  const surface = (g, k) => once('mesh' + k, () => unpack(data.meshes[k]));
  const decade = 10 ** Math.floor(Math.log10(data.extent)), whole = data.extent / decade > 3 ? 2 * decade : decade;
  function tiles(draw) {  // a texture of cells of a round size, about a third of the scene
    const c = document.createElement('canvas'), size = c.width = c.height = 128, pen = c.getContext('2d');
    draw(pen, size);
    const texture = new THREE.CanvasTexture(c);
    texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
    texture.repeat.set(1 / whole, 1 / whole);
    texture.anisotropy = 8;
    if (modern) texture.colorSpace = THREE.SRGBColorSpace; else texture.encoding = THREE.sRGBEncoding;
    return texture;
  }
  const style = (cells, k) => 'rgb(' + three(cells, k).map(c => Math.round(255 * Math.min(1, Math.max(0, c)))) + ')';
  const checker = cells => tiles((pen, size) => {
    pen.fillStyle = cells ? style(cells, 0) : dark ? '#525d68' : '#ffffff'; pen.fillRect(0, 0, size, size);
    if (cells) {
      pen.fillStyle = style(cells, 1); pen.fillRect(0, 0, size / 2, size / 2); pen.fillRect(size / 2, size / 2, size / 2, size / 2);
      return;
    }
    pen.fillStyle = dark ? '#47525c' : '#e9edf1'; pen.fillRect(0, 0, size / 2, size / 2); pen.fillRect(size / 2, size / 2, size / 2, size / 2);
    pen.strokeStyle = dark ? '#3a444e' : '#c9d2db'; pen.lineWidth = 1.5; pen.strokeRect(0, 0, size / 2, size / 2); pen.strokeRect(size / 2, size / 2, size / 2, size / 2);
  });
  const ruled = () => tiles((pen, size) => {
    pen.strokeStyle = '#8494a5'; pen.lineWidth = 2; pen.strokeRect(0, 0, size, size);
    pen.lineWidth = 0.8; pen.strokeRect(0, size / 2, size, size); pen.strokeRect(size / 2, 0, size, size);
  });
  const far = 60 * data.extent;
  // The surface of a shape and how it is scaled and moved in the shape's frame.
  function shape(g, hull) {
    const s = g.size, scaled = (geometry, x, y, z) => ({geometry, scale: [x, y, z]});
    switch (g.type) {
      case 0: return {geometry: sheet(s[0] || far, s[1] || far)};
      case 2: return scaled(once('ball', ball), s[0], s[0], s[0]);
      case 3: return {geometry: once('capsule' + s, () => capsule(s[0], s[1]))};
      case 4: return scaled(once('ball', ball), s[0], s[1], s[2]);
      case 5: return scaled(once('can', can), s[0], s[0], s[1]);
      case 6: return scaled(once('brick', brick), s[0], s[1], s[2]);
    }
    const k = hull && g.hull !== undefined || g.mesh === undefined ? g.hull : g.mesh;
    if (k === undefined) return {geometry: once('brick', brick), scale: g.box.slice(3), pos: g.box.slice(0, 3)};  // not read: its box
    const m = data.meshes[k];
    return {geometry: surface(g, k), scale: [m.step, m.step, m.step], pos: plus(g.mesh_pos, turn(unit(g.mesh_quat), m.low)), quat: g.mesh_quat};
  }
  function paint(g) {
    const cells = g.cells, tint = three(g.rgba, 0).map((c, k) => cells && g.type ? c * (cells[k] + cells[3 + k]) / 2 : c);
    const m = new THREE.MeshStandardMaterial({color: colour(...tint), roughness: 0.6, metalness: 0.05, side: THREE.DoubleSide});
    if (modern) m.forceSinglePass = true;
    if (g.type === 0) { m.map = once('checker' + (cells || ''), () => checker(cells)); m.roughness = 0.9; }
    m.userData.opacity = g.rgba[3];
    fade(m, 1);
    return m;
  }
  function fade(m, by) {
    const opacity = m.userData.opacity * by;
    m.transparent = opacity < 1;
    m.opacity = opacity;
    m.depthWrite = opacity >= 1;
  }
  const groups = [];
  let current = [], dirty = true;  // poses of bodies now; is the picture out of date?
  for (let b = 0; b < bodies; b++) { groups.push(new THREE.Group()); scene.add(groups[b]); }
  function hang(g, hull, paint, group) {  // a shape on its body
    const s = shape(g, hull), mesh = new THREE.Mesh(s.geometry, paint), frame = new THREE.Group();
    frame.position.set(...g.pos);
    frame.quaternion.set(g.quat[1], g.quat[2], g.quat[3], g.quat[0]);
    if (s.scale) mesh.scale.set(...s.scale);
    if (s.pos) mesh.position.set(...s.pos);
    if (s.quat) mesh.quaternion.set(s.quat[1], s.quat[2], s.quat[3], s.quat[0]);
    mesh.frustumCulled = false;
    frame.add(mesh);
    group.add(frame);
    return mesh;
  }
  function place(g, hull) {
    const mesh = hang(g, hull, g.paint || (g.paint = paint(g)), groups[g.body]);
    mesh.userData = g;
    if (g.type === 0 && !(g.size[0] > 0 && g.size[1] > 0)) endless.push(mesh);
    return mesh;
  }
  // Planes without end lie under what is looked at, moved by whole cells.
  const endless = [];
  function lay() {
    for (const mesh of endless) {
      mesh.parent.updateWorldMatrix(true, false);
      const at = mesh.parent.worldToLocal(view.target.clone()), step = 2 * whole, g = mesh.userData;
      mesh.position.set(g && g.size && g.size[0] > 0 ? 0 : step * Math.round(at.x / step), g && g.size && g.size[1] > 0 ? 0 : step * Math.round(at.y / step), 0);
    }
  }
  // Made when they are first to be seen: many a model has shapes that nobody looks at.
  const triangles = mesh => (mesh.geometry.index || mesh.geometry.attributes.position).count / 3;
  function present(g, hull, on) {
    const key = hull ? 'hullMesh' : 'seenMesh';
    if (on && !g[key]) {
      g[key] = place(g, hull);
      g[key].castShadow = g.type !== 0 && !g.site;
      g[key].receiveShadow = !g.site;
    }
    if (g[key]) g[key].visible = on;
    if (ghost && ghost.groups.has(g.body) && !g.site) haunt(g, hull, on);
  }
  // A recording beside the motion: what hangs on its joints once more, in one color, at the same time; before the motion where both are one.
  const ghost = data.ghost && {groups: new Map(), qpos: floats(data.ghost.qpos), box: byId('ghost')};
  if (ghost) {
    const joints = new Set(data.ghost.joints.map(j => data.joints[j].body));
    for (let b = 1; b < bodies; b++) {
      if (!joints.has(b) && !ghost.groups.has(data.body_parentid[b])) continue;
      const group = new THREE.Group();
      scene.add(group);
      ghost.groups.set(b, group);
    }
    ghost.paint = new THREE.MeshStandardMaterial({color: hex(dark ? 0xf2905c : 0xc8501e), roughness: 0.8, transparent: true, opacity: 0.5, depthWrite: false, side: THREE.FrontSide,
      polygonOffset: true, polygonOffsetFactor: -1, polygonOffsetUnits: -4});
    byId('haunted').hidden = false;
    byId('ghostname').textContent = byId('ghostname').title = data.ghost.name;
    ghost.box.addEventListener('change', arrange);
  }
  function haunt(g, hull, on) {
    const key = hull ? 'hullGhost' : 'seenGhost', seen = on && ghost.box.checked;
    if (seen && !g[key]) {
      g[key] = hang(g, hull, ghost.paint, ghost.groups.get(g.body));
      g[key].userData = {ghost: g};
    }
    if (g[key]) g[key].visible = seen;
  }
  function ghostPoses(k) {
    const n = data.qpos0.length;
    return kinematics([...ghost.qpos.subarray(k * n, (k + 1) * n)], k);
  }
  function moveGhost(k) {
    if (!ghost) return;
    const poses = ghostPoses(k);
    ghost.groups.forEach((group, b) => setPose(group, poses[b]));
  }
  // A ghost may go where the motion does not: the extent that shows both, at most some times that of the motion.
  function extent() {
    if (!ghost || data.following) return data.extent;
    if (ghost.extent) return ghost.extent;
    const size = g => g.type === 3 ? g.size[0] + g.size[1] : g.type === 2 ? g.size[0] : g.type === 5 ? Math.hypot(g.size[0], g.size[1]) : g.type < 7 ? Math.hypot(...g.size) : data.extent / 10;
    const seen = data.geoms.filter(g => g.type && ghost.groups.has(g.body)), every = Math.ceil(frames / 200);
    let far = 0;
    for (let k = 0; k < frames; k += every) {
      const poses = ghostPoses(k);
      for (const g of seen) far = Math.max(far, Math.hypot(...minus(plus(poses[g.body].pos, turn(poses[g.body].quat, g.pos)), data.center)) + size(g));
    }
    return ghost.extent = Math.min(Math.max(data.extent, Math.SQRT2 * far), 4 * data.extent);
  }
  function setPose(group, p) { group.position.set(...p.pos); group.quaternion.set(p.quat[1], p.quat[2], p.quat[3], p.quat[0]); }
  const used = [...new Set([...data.geoms, ...data.sites].map(g => g.group))].sort();
  const shown = new Set([0, 1, 2]);
  if (!data.geoms.some(g => g.body && shown.has(g.group))) data.geoms.forEach(g => shown.add(g.group));
  // Of URDF, whose links have shapes that touch (group 0) and shapes that are seen (1), the latter, where each link with one has both.
  const looks = new Set(data.geoms.filter(g => g.group === 1 && !g.collides).map(g => g.body));
  if (looks.size && data.geoms.every(g => g.collides ? g.group === 0 && looks.has(g.body) : g.group === 1)) shown.delete(0);
  function isShown(g) {
    const kind = byId('shapes').value;
    if (g.type === 0 && !byId('ground').checked) return false;
    if (kind === 'collision') return g.collides;
    return shown.has(g.group) && (kind === 'both' || kind === 'seen' || !g.collides);
  }
  function arrange() {
    const collision = byId('shapes').value === 'collision';
    for (const g of data.geoms) {
      const on = isShown(g), hull = collision && g.hull !== undefined;
      present(g, hull, on);
      if (g.hull !== undefined) present(g, !hull, false);
    }
    for (const s of data.sites) { s.site = true; present(s, false, byId('sites').checked && shown.has(s.group)); }
    if (current.length) stretch();
    grid.visible = byId('ground').checked && !data.geoms.some(g => g.type <= 1 && isShown(g));
    dirty = true;
  }

  // ---- the ground where the model has none: lines that fade into the distance, and shadows ---------------------------------
  const grid = new THREE.Group();
  {
    const floor = sheet(far, far), flat = material => { const m = new THREE.Mesh(floor, material); m.material.depthWrite = false; m.frustumCulled = false; grid.add(m); endless.push(m); return m; };
    flat(new THREE.MeshBasicMaterial({map: ruled(), transparent: true, side: THREE.DoubleSide, opacity: 0.8}));
    flat(new THREE.ShadowMaterial({opacity: 0.22})).receiveShadow = true;
    grid.position.set(0, 0, data.floor - 1e-3 * data.extent);
    scene.add(grid);
  }

  // ---- tendons: pieces between points of bodies, straight or around a sphere or cylinder --------------------------------
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const back = q => [q[0], -q[1], -q[2], -q[3]], TINY = 1e-15;
  // +1, -1: about the normal as end, side point, end go, or the shorter way; [that, does the straight line go another way?]
  function wayAround(p, side, normal) {
    const about = (a, b) => dot(cross(a, b), normal), whole = about(p[0], p[1]);
    let way = whole < 0 ? -1 : 1;
    if (!side) return [way, false];
    const first = about(side, p[0]), last = about(side, p[1]);
    if (first < 0 && last >= 0) way = 1;
    if (first > 0 && last <= 0) way = -1;
    return [way, way * whole < 0];
  }
  // Where |p0 t| + |t p1| is least on the circle: its angle.
  function touchAngle(p, r) {
    const start = Math.atan2(p[0][1], p[0][0]), whole = Math.atan2(p[0][0] * p[1][1] - p[0][1] * p[1][0], p[0][0] * p[1][0] + p[0][1] * p[1][1]);
    const far = a => Math.hypot(p[0][0] - r * Math.cos(a), p[0][1] - r * Math.sin(a)) + Math.hypot(p[1][0] - r * Math.cos(a), p[1][1] - r * Math.sin(a));
    let low = 0, high = 1;
    for (let i = 0; i < 60; i++) { const a = low + (high - low) / 3, b = high - (high - low) / 3; if (far(start + whole * a) < far(start + whole * b)) high = b; else low = a; }
    return start + whole * (low + high) / 2;
  }
  // Points of the path between two ends; none where it is straight. o: pos, quat, radius, cylinder, side (a point, null: none).
  function wrapPath(x0, x1, o) {
    const r = o.radius, local = x => turn(back(o.quat), minus(x, o.pos)), y = [local(x0), local(x1)], flat = x => o.cylinder ? [x[0], x[1], 0] : x;
    const p = y.map(flat), inside = o.side && Math.hypot(...minus(o.side, o.pos)) < r;
    let side = o.side ? flat(local(o.side)) : null;
    if (side && Math.hypot(...side) < TINY) side = [1, 0, 0];
    if (r < TINY || p.some(x => Math.hypot(...x) < r)) return [];

    const d = minus(p[1], p[0]), dd = dot(d, d), share = dd < TINY ? 0 : Math.max(0, Math.min(1, -dot(d, p[0]) / dd));
    const meets = dd >= TINY && Math.hypot(...plus(p[0], times(share, d))) <= r;
    if (inside ? meets || p.some(x => Math.hypot(...x) === r) : dd < TINY || !meets && !side) return [];

    let normal = o.cylinder ? [0, 0, 1] : cross(p[0], p[1]);
    if (Math.hypot(...normal) < TINY) {  // on a line: across it and the axes that it is least along
      const size = p[0].map(Math.abs), most = size[2] > size[0] && size[2] > size[1] ? 2 : size[1] > size[0] && size[1] > size[2] ? 1 : 0;
      normal = cross(p[0], [0, 1, 2].map(k => k === most ? 0 : 1));
    }
    const [way, other] = inside ? [1, false] : wayAround(p, side, normal);
    if (!inside && !meets && !other) return [];

    // in the plane
    const ex = o.cylinder ? [1, 0, 0] : unit(p[0]), ez = unit(normal), ey = o.cylinder ? [0, 1, 0] : cross(ez, ex);
    const q = p.map(x => [dot(x, ex), dot(x, ey)]), angles = [], straight = q.map(x => Math.sqrt(Math.max(0, x[0] * x[0] + x[1] * x[1] - r * r)));
    let before = straight[0], arc = 0;
    if (inside) {
      angles.push(touchAngle(q, r));
      before = Math.hypot(q[0][0] - r * Math.cos(angles[0]), q[0][1] - r * Math.sin(angles[0]));
      straight[1] = Math.hypot(q[1][0] - r * Math.cos(angles[0]), q[1][1] - r * Math.sin(angles[0]));
    } else {
      let whole = Math.atan2(q[0][0] * q[1][1] - q[0][1] * q[1][0], q[0][0] * q[1][0] + q[0][1] * q[1][1]);
      if (whole * way < 0) whole += 2 * Math.PI * way;
      arc = whole * way - Math.atan2(straight[0], r) - Math.atan2(straight[1], r);
      const first = Math.atan2(q[0][1], q[0][0]) + way * Math.atan2(straight[0], r), steps = Math.max(1, Math.ceil(Math.abs(arc) / 0.25));
      for (let i = 0; i <= steps; i++) angles.push(first + way * arc * i / steps);
    }
    const length = before + r * arc + straight[1], rise = o.cylinder ? y[1][2] - y[0][2] : 0;
    return angles.map((a, i) => {
      const gone = before + r * arc * (angles.length > 1 ? i / (angles.length - 1) : 0), at = plus(times(r * Math.cos(a), ex), times(r * Math.sin(a), ey));
      if (o.cylinder) at[2] = y[0][2] + rise * gone / length;
      return plus(o.pos, turn(o.quat, at));
    });
  }
  const axis = new THREE.Vector3(0, 0, 1), onBody = (b, at) => plus(current[b].pos, turn(current[b].quat, at));
  for (const t of data.tendons) {
    t.paint = paint({type: 5, rgba: t.rgba});
    t.rods = [];
    t.around = new Map(t.wraps.map(w => [w.piece, w]));
  }
  function tendonPath(t) {  // polylines, one a piece
    const out = [];
    for (let k = 0; 2 * k < t.bodies.length; k++) {
      const a = onBody(t.bodies[2 * k], three(t.points, 2 * k)), b = onBody(t.bodies[2 * k + 1], three(t.points, 2 * k + 1)), w = t.around.get(k);
      const o = w && {pos: onBody(w.body, w.pos), quat: unit(mulQuat(current[w.body].quat, w.quat)), radius: w.radius, cylinder: w.cylinder, side: w.side ? onBody(w.side_body, w.side) : null};
      out.push([a, ...(o ? wrapPath(a, b, o) : []), b]);
    }
    return out;
  }
  function rod(t) {
    const mesh = new THREE.Mesh(once('can', can), t.paint);
    mesh.castShadow = true;
    mesh.frustumCulled = false;
    mesh.userData = t;
    scene.add(mesh);
    t.rods.push(mesh);
    return mesh;
  }
  function between(mesh, a, b, width) {
    const way = new THREE.Vector3(...minus(b, a)), length = way.length();
    mesh.position.set(...times(0.5, plus(a, b)));
    mesh.scale.set(width, width, Math.max(length / 2, 1e-9));
    if (length > 0) mesh.quaternion.setFromUnitVectors(axis, way.divideScalar(length));
  }
  function stretch() {
    const on = byId('tendons').checked;
    for (const t of data.tendons) {
      let count = 0;
      for (const line of on ? tendonPath(t) : []) for (let i = 0; i + 1 < line.length; i++, count++) between(t.rods[count] || rod(t), line[i], line[i + 1], t.width);
      t.rods.forEach((mesh, i) => { mesh.visible = i < count; });
    }
  }

  // ---- contacts: a disc across the normal, an arrow for the force ---------------------------------------------------------
  const markers = [], force = i => Math.hypot(touch[WIDE * i + 6], touch[WIDE * i + 7], touch[WIDE * i + 8]);
  let strongest = 0;
  for (let i = 0; touch && i < touch.length / WIDE; i++) strongest = Math.max(strongest, force(i));
  function marker() {
    const group = new THREE.Group(), arrow = new THREE.Group(), r = data.extent / 60;
    const paint = new THREE.MeshStandardMaterial({color: hex(0xf07810), emissive: hex(0x803000), roughness: 0.75});
    const part = (parent, geometry, x, y, z, up) => { const m = new THREE.Mesh(geometry, paint); m.scale.set(x, y, z); m.position.z = up; m.frustumCulled = false; parent.add(m); return m; };
    group.disc = part(group, once('can', can), r, r, r / 16, 0);
    group.shaft = part(arrow, once('can', can), r / 7, r / 7, 1, 0);
    group.head = part(arrow, once('cone', () => revolve([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 0.95, 0.3], [0, 1, 0.95, 0.3]], 20)), r / 2.5, r / 2.5, r, 0);
    group.arrow = arrow;
    scene.add(group, arrow);
    return group;
  }
  function mark(k) {
    const first = touch && k >= 0 ? data.contacts.start[k] : 0, count = touch && k >= 0 && byId('contacts').checked ? data.contacts.start[k + 1] - first : 0;
    while (markers.length < count) markers.push(marker());
    markers.forEach((m, i) => {
      m.visible = m.arrow.visible = i < count;
      if (!m.visible) return;
      const c = touch.subarray(WIDE * (first + i), WIDE * (first + i + 1)), f = force(first + i), r = data.extent / 60;
      m.position.set(c[0], c[1], c[2]);
      m.quaternion.setFromUnitVectors(axis, new THREE.Vector3(c[3], c[4], c[5]));
      m.arrow.visible = data.contacts.forces && byId('forces').checked && f > 1e-6 * strongest;
      if (!m.arrow.visible) return;
      const length = Math.max(0.35 * data.extent * f / strongest, 0.01 * data.extent);
      m.arrow.position.copy(m.position);
      m.arrow.quaternion.setFromUnitVectors(axis, new THREE.Vector3(c[6] / f, c[7] / f, c[8] / f));
      m.shaft.scale.z = length / 2; m.shaft.position.z = length / 2;
      m.head.position.z = length;
    });
  }

  // ---- deformables: one set of points, triangles and lines over it -----------------------------------------------------
  const skin = data.skin;
  let places, soft;
  if (skin) {
    places = floats(skin.points);
    soft = new THREE.BufferGeometry();
    const points = new THREE.BufferAttribute(new Float32Array(places.length / frames), 3), blue = hex(0x3f7fc0);
    soft.setAttribute('position', points);
    soft.setIndex(skin.triangles);
    const add = thing => { thing.frustumCulled = false; scene.add(thing); return thing; };
    if (skin.triangles.length) {
      const mesh = add(new THREE.Mesh(soft, new THREE.MeshStandardMaterial({color: blue, roughness: 0.75, side: THREE.DoubleSide})));
      mesh.castShadow = mesh.receiveShadow = true;
      mesh.userData = {name: 'deformables', skin: true};
      add(new THREE.Mesh(soft, new THREE.MeshBasicMaterial({color: hex(0x0b2540), wireframe: true, transparent: true, opacity: 0.25})));
    }
    const lines = new THREE.BufferGeometry();
    lines.setAttribute('position', points);
    lines.setIndex(skin.edges);
    if (skin.edges.length) add(new THREE.LineSegments(lines, new THREE.LineBasicMaterial({color: hex(dark ? 0x74aee8 : 0x1f4f80)})));
    const dots = new THREE.BufferGeometry();
    dots.setAttribute('position', points);
    if (!skin.triangles.length) add(new THREE.Points(dots, new THREE.PointsMaterial({color: hex(dark ? 0x9cc8f2 : 0x1f4f80), size: poster ? 8 : 5, sizeAttenuation: false})));
  }
  function bend(k) {
    if (!skin) return;
    const points = soft.attributes.position, n = points.array.length;
    points.array.set(places.subarray(k * n, (k + 1) * n));
    points.needsUpdate = true;
    if (skin.triangles.length) soft.computeVertexNormals();
  }

  // ---- cameras: orbit around a point with z up, or one of the model's ----------------------------------------------------
  const camera = new THREE.PerspectiveCamera(40, 1, 1, 2), look = {azimuth: poster && poster.length > 1 ? poster[1] : -0.85, elevation: poster && poster.length > 2 ? poster[2] : 0.32};
  let view;
  function start() { view = Object.assign({target: new THREE.Vector3(...data.center), distance: 0}, look); }
  start();
  // Fixed to their body, moving along with it (or its center of mass) without turning, or looking at another.
  let reference = null;
  function modelCamera(c) {
    const at = current[c.body], home = reference || (reference = kinematics(data.qpos0)), rotation = mulQuat(at.quat, unit(c.quat));
    const of = poses => plus(poses[c.body].pos, turn(poses[c.body].quat, c.pos));
    if (c.mode === 1) return {pos: plus(at.pos, minus(of(home), home[c.body].pos)), quat: mulQuat(home[c.body].quat, unit(c.quat))};
    if (c.mode === 2) return {pos: plus(centers(current)[c.body], minus(of(home), centers(home)[c.body])), quat: mulQuat(home[c.body].quat, unit(c.quat))};
    if (c.mode < 3 || c.target < 0) return {pos: of(current), quat: rotation};
    const pos = of(current), z = unit(minus(pos, c.mode === 3 ? current[c.target].pos : centers(current)[c.target]));
    const m = new THREE.Matrix4().lookAt(new THREE.Vector3(...z), new THREE.Vector3(0, 0, 0), new THREE.Vector3(0, 0, 1)), q = new THREE.Quaternion().setFromRotationMatrix(m);
    return {pos, quat: [q.w, q.x, q.y, q.z]};
  }
  function center(chosen) {  // in what panel and bar leave free
    const w = stage.clientWidth, h = stage.clientHeight, x = w > 700 && !poster && !inset ? 140 : 0, y = data.moving && !poster ? 26 : 0;
    if (chosen) camera.clearViewOffset(); else camera.setViewOffset(w, h, x, y, w, h);
    camera.updateProjectionMatrix();
  }
  function aim() {
    const chosen = data.cameras[+byId('camera').value - 1], fovy = chosen ? chosen.fovy[0] : 40;
    const least = Math.min(1, camera.aspect), fits = 0.78 * extent() / Math.sin(Math.atan(least * Math.tan(20 * Math.PI / 180)));
    if (!view.distance) view.distance = fits * (poster && poster[3] || 1);
    camera.fov = fovy > 0 && fovy < 180 ? fovy : 40;
    if (chosen) {
      const at = modelCamera(chosen);
      camera.position.set(...at.pos);
      camera.quaternion.set(at.quat[1], at.quat[2], at.quat[3], at.quat[0]);
    } else {
      const c = Math.cos(view.elevation), d = view.distance;
      camera.up.set(0, 0, 1);
      camera.position.set(view.target.x + d * c * Math.cos(view.azimuth), view.target.y + d * c * Math.sin(view.azimuth), view.target.z + d * Math.sin(view.elevation));
      camera.lookAt(view.target);
    }
    const reach = chosen ? camera.position.distanceTo(new THREE.Vector3(...data.center)) : view.distance, e = 1.1 * data.extent;
    camera.near = Math.max(reach / 200, data.extent / 2000);
    camera.far = 60 * (reach + data.extent);
    center(chosen);
    scene.fog.near = 3 * reach + 2 * data.extent;
    scene.fog.far = 9 * reach + 8 * data.extent;
    sun.position.copy(view.target).add(new THREE.Vector3(0.55, -0.45, 1).multiplyScalar(3 * data.extent));
    sun.target.position.copy(view.target);
    fill.position.copy(view.target).add(new THREE.Vector3(-0.7, 0.5, 0.25).multiplyScalar(3 * data.extent));
    fill.target.position.copy(view.target);
    lay();
    const box = sun.shadow.camera;
    box.left = box.bottom = -e; box.right = box.top = e; box.near = 0.5 * data.extent; box.far = 7 * data.extent;
    box.updateProjectionMatrix();
    dirty = true;
  }
  const canvas = renderer.domElement, pointers = new Map();
  let pinch = 0, still = false;
  function orbit(dx, dy) {
    view.azimuth -= dx;
    view.elevation = Math.max(-1.55, Math.min(1.55, view.elevation + dy));
    aim();
  }
  canvas.addEventListener('contextmenu', e => e.preventDefault());
  canvas.addEventListener('pointerdown', e => { pointers.set(e.pointerId, e); canvas.setPointerCapture(e.pointerId); pinch = 0; still = true; });
  canvas.addEventListener('pointerup', e => { pointers.delete(e.pointerId); pinch = 0; if (still && e.button === 0) { if (poster) set(!playing); else pick(e); } });
  canvas.addEventListener('pointercancel', e => { pointers.delete(e.pointerId); pinch = 0; });
  canvas.addEventListener('pointermove', e => {
    const last = pointers.get(e.pointerId);
    if (!last) return;
    const dx = e.clientX - last.clientX, dy = e.clientY - last.clientY;
    if (still && Math.hypot(dx, dy) < 4) return;
    still = false;
    pointers.set(e.pointerId, e);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()], d = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      if (pinch) view.distance *= pinch / d;
      pinch = d;
      aim();
    } else if (e.buttons & 2 || e.shiftKey) {
      const right = new THREE.Vector3().setFromMatrixColumn(camera.matrix, 0), up = new THREE.Vector3().setFromMatrixColumn(camera.matrix, 1);
      const step = 0.73 * view.distance / canvas.clientHeight;
      view.target.addScaledVector(right, -dx * step).addScaledVector(up, dy * step);
      aim();
    } else orbit(0.006 * dx, 0.006 * dy);
  });
  if (!poster && !inset) canvas.addEventListener('wheel', e => { e.preventDefault(); view.distance *= Math.exp(0.001 * e.deltaY); aim(); }, {passive: false});

  // ---- what is it? ---------------------------------------------------------------------------------------------------------
  const KINDS = ['plane', 'height field', 'sphere', 'capsule', 'ellipsoid', 'cylinder', 'box', 'mesh'];
  let lit = [];
  function glow(paints) {
    for (const m of lit) m.emissive.setRGB(0, 0, 0);
    lit = paints;
    for (const m of lit) m.emissive.copy(hex(0x2a4a12));
    dirty = true;
  }
  function tell(rows, paints) {
    const table = byId('facts');
    table.textContent = '';
    for (const [key, value] of rows) {
      const row = table.insertRow();
      row.insertCell().textContent = key;
      row.insertCell().textContent = value;
    }
    glow(paints);
  }
  function bodyFacts(b) {
    const joints = jointsOf[b].map(j => (j.name || 'joint ' + data.joints.indexOf(j)) + ' (' + ['free', 'ball', 'slide', 'hinge'][j.type] + ')');
    return [['body', bodyName(b)], ['parent', b ? bodyName(data.body_parentid[b]) : ''], ['joints', joints.join(', ') || 'none'], ['mass', short(data.body_mass[b]) + ' kg']];
  }
  function chooseBody(b) {
    byId('body').value = b;
    tell(bodyFacts(b), data.geoms.filter(g => g.body === b && g.paint).map(g => g.paint));
  }
  function shapeFacts(g) {
    const mesh = g.hullMesh && g.hullMesh.visible ? g.hullMesh : g.seenMesh, rows = [[g.site ? 'site' : 'geom', g.name || 'number ' + g.id], ['type', KINDS[g.type]]];
    if (g.file !== undefined) rows.push(['mesh', g.file]); else rows.push(['size', g.size.map(short).join(' ')]);
    rows.push(['triangles', triangles(mesh)], ['group', g.group]);
    if (!g.site) rows.push(['collides', g.collides ? 'yes' : 'no']);
    return rows;
  }
  function pick(e) {
    const box = canvas.getBoundingClientRect(), ray = new THREE.Raycaster();
    ray.setFromCamera(new THREE.Vector2((e.clientX - box.left) / box.width * 2 - 1, 1 - (e.clientY - box.top) / box.height * 2), camera);
    const things = [];
    scene.traverseVisible(o => { if (o.isMesh && o.userData && (o.userData.type !== undefined || o.userData.width || o.userData.skin)) things.push(o); });
    const hit = ray.intersectObjects(things, false)[0], g = hit && hit.object.userData;
    if (hit) byId('selection').open = true;
    if (!g) tell([], []);
    else if (g.skin) tell([['deformables', skin.triangles.length / 3 + ' triangles']], []);
    else if (g.type === undefined) tell([['tendon', g.name || 'number ' + data.tendons.indexOf(g)], ['width', short(g.width) + ' m']], [g.paint]);
    else { byId('body').value = g.body; tell([...shapeFacts(g), ...bodyFacts(g.body)], [g.paint]); }
    return g;
  }

  // ---- time ------------------------------------------------------------------------------------------------------------
  const slider = byId('time'), clock = byId('clock'), play = byId('play'), speed = byId('speed'), follow = byId('follow');
  slider.max = frames - 1;
  follow.checked = data.following;
  follow.parentNode.hidden = !data.follow;
  let frame = 0, playing = false, now = data.time[0], stamp = 0;
  const mover = new Map(data.movers.map((b, i) => [b, i]));
  function poseAt(b, k) {
    const i = mover.has(b) ? 7 * (mover.get(b) * frames + k) : 7 * b, from = mover.has(b) ? moved : rest;
    return {pos: [from[i], from[i + 1], from[i + 2]], quat: [from[i + 3], from[i + 4], from[i + 5], from[i + 6]]};
  }
  function put(poses) {
    const before = data.follow > 0 ? groups[data.follow].position.clone() : null, first = !current.length;
    current = poses;
    poses.forEach((p, b) => setPose(groups[b], p));
    stretch();
    if (before && follow.checked && !first) view.target.add(groups[data.follow].position).sub(before);
    if (before && follow.checked || byId('camera').value !== '0') aim();
    dirty = true;
  }
  function pose(k) {
    put(data.bodies.map((_, b) => poseAt(b, k)));
    moveGhost(k);
    bend(k);
    mark(k);
    frame = k;
    slider.value = k;
    clock.textContent = data.time[k].toFixed(3) + ' of ' + end.toFixed(3) + ' s';
    readSliders(k);
    for (const p of plots) p.cursor();
  }
  function at(time) {  // last frame not after a time
    let low = 0, high = frames - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (data.time[middle] <= time) low = middle; else high = middle - 1; }
    return low;
  }
  function set(on) { playing = on; document.body.classList.toggle('playing', on); play.textContent = on ? 'Pause' : 'Play'; stamp = 0; if (on && frame === frames - 1) { now = data.time[0]; pose(0); } }
  function go(k) { set(false); pose(Math.max(0, Math.min(frames - 1, k))); now = data.time[frame]; }
  play.addEventListener('click', () => set(!playing));
  byId('back').addEventListener('click', () => go(frame - 1));
  byId('forth').addEventListener('click', () => go(frame + 1));
  slider.addEventListener('input', () => go(+slider.value));

  // ---- a slider for each joint -------------------------------------------------------------------------------------------
  const qpos = data.qpos0.slice(), controls = [];
  const positions = data.series.find(s => s.title === 'position');
  function values(s) { return s.floats || (s.floats = floats(s.values)); }
  function atFrame(k) { for (let i = 0; positions && i < qpos.length; i++) qpos[i] = values(positions)[k * positions.names.length + i]; }
  function couple() {  // joints that follow others; a few rounds for those that follow followers
    for (let round = 0; round < 4; round++) for (const c of data.couplings) {
      const own = data.joints[c.joint].qpos, by = c.by >= 0 ? data.joints[c.by].qpos : -1, x = by < 0 ? 0 : qpos[by] - data.qpos0[by];
      qpos[own] = data.qpos0[own] + c.data.slice(0, 5).reduceRight((sum, k) => sum * x + k, 0);
    }
  }
  function moveJoints() {
    couple();
    set(false);
    put(kinematics(qpos));
    mark(-1);
    for (const c of controls) c.read();
  }
  function addSlider(name, low, high, read, write) {
    const row = byId('sliders').appendChild(document.createElement('label')), label = row.appendChild(document.createElement('span'));
    const input = row.appendChild(document.createElement('input')), said = row.appendChild(document.createElement('output'));
    row.className = 'slider';
    label.textContent = label.title = name;
    input.type = 'range'; input.min = low; input.max = high; input.step = (high - low) / 1000 || 'any';
    const control = {name, read() { const value = read(); if (document.activeElement !== input || playing) input.value = value; said.textContent = value.toFixed(3); }, write(value) { write(value); moveJoints(); }};
    input.addEventListener('input', () => control.write(+input.value));
    controls.push(control);
    control.read();
  }
  function turnSliders(j, name, at) {  // of a rotation: three components of a vector from where it is first touched
    let from = null, vector = [0, 0, 0];
    ['rx', 'ry', 'rz'].forEach((axis, k) => addSlider(axis + ' ' + name, -Math.PI, Math.PI, () => vector[k], value => {
      from = from || qpos.slice(at, at + 4);
      vector[k] = value;
      const q = mulQuat(unit(from), about(vector, Math.hypot(...vector)));
      for (let i = 0; i < 4; i++) qpos[at + i] = q[i];
    }));
    controls.push({read() {}, reset() { from = null; vector = [0, 0, 0]; }});
  }
  function makeSliders() {
    if (controls.length) return;
    atFrame(frame);
    data.joints.forEach((j, i) => {
      const name = j.name || 'joint ' + i, wide = j.type === 3 ? Math.PI : data.extent;
      const plain = (label, at, low, high) => addSlider(label, low, high, () => qpos[at], value => { qpos[at] = value; });
      if (j.type === 0) ['x', 'y', 'z'].forEach((axis, k) => plain(axis + ' ' + name, j.qpos + k, data.qpos0[j.qpos + k] - wide, data.qpos0[j.qpos + k] + wide));
      if (j.type < 2) turnSliders(j, name, j.qpos + (j.type ? 0 : 3));
      else plain(name, j.qpos, ...(j.range || [data.qpos0[j.qpos] - wide, data.qpos0[j.qpos] + wide]));
    });
    const back = byId('sliders').appendChild(document.createElement('button'));
    back.textContent = 'Back';
    back.addEventListener('click', () => pose(frame));
  }
  function readSliders(k) {
    if (!controls.length || !byId('joints').open) return;
    atFrame(k);
    for (const c of controls) { if (c.reset) c.reset(); }
    for (const c of controls) c.read();
  }
  byId('joints').hidden = !data.joints.length;
  byId('joints').addEventListener('toggle', () => { if (byId('joints').open) { makeSliders(); readSliders(frame); } });
  if (!data.moving && data.joints.length && stage.clientWidth > 700) byId('joints').open = true;

  // ---- plots: numbers over time --------------------------------------------------------------------------------------------
  const plots = [], choices = [];
  function pairForce(pair) {  // magnitude summed over the contacts of a pair, or of all
    return Array.from({length: frames}, (_, k) => {
      let sum = 0;
      for (let i = data.contacts.start[k]; i < data.contacts.start[k + 1]; i++)
        if (!pair || touch[WIDE * i + 9] === pair[0] && touch[WIDE * i + 10] === pair[1]) sum += force(i);
      return sum;
    });
  }
  function listChoices() {
    for (const s of data.series) s.names.forEach((name, i) => choices.push({group: s.title, name, values: () => Array.from({length: frames}, (_, k) => values(s)[k * s.names.length + i])}));
    if (!touch || !data.contacts.forces) return;
    const pairs = new Map();
    for (let i = 0; i < touch.length / WIDE; i++) pairs.set(touch[WIDE * i + 9] + ' ' + touch[WIDE * i + 10], [touch[WIDE * i + 9], touch[WIDE * i + 10]]);
    choices.push({group: 'contact force (N)', name: 'all contacts', values: () => pairForce(null)});
    for (const pair of pairs.values()) choices.push({group: 'contact force (N)', name: pair.map(geomName).join(' - '), values: () => pairForce(pair)});
  }
  function addPlot(choice) {
    const figure = byId('plots').appendChild(document.createElement('figure')), label = figure.appendChild(document.createElement('span'));
    const close = figure.appendChild(document.createElement('button')), paper = figure.appendChild(document.createElement('canvas')), y = choice.values();
    const low = Math.min(...y), high = Math.max(...y), span = high > low ? high - low : 1, t0 = data.time[0], dt = end - t0 || 1;
    close.textContent = '\u00d7'; close.setAttribute('aria-label', 'remove');
    const plot = {name: choice.name, y, cursor() {
      const ratio = window.devicePixelRatio || 1, w = paper.width = Math.max(paper.clientWidth * ratio, 1), h = paper.height = 84 * ratio, pen = paper.getContext('2d');
      const px = k => (data.time[k] - t0) / dt * (w - 2), py = v => h - 3 - (v - low) / span * (h - 6), stride = Math.max(1, Math.floor(frames / (2 * w)));
      pen.strokeStyle = '#1f5fa8'; pen.lineWidth = 1.4 * ratio;
      pen.beginPath();
      for (let k = 0; k < frames; k += stride) pen.lineTo(px(k), py(y[k]));
      pen.stroke();
      pen.strokeStyle = '#c8501e';
      pen.beginPath(); pen.moveTo(px(frame), 0); pen.lineTo(px(frame), h); pen.stroke();
      label.textContent = choice.group + ': ' + choice.name + ' = ' + short(y[frame]) + '  [' + short(low) + ', ' + short(high) + ']';
    }};
    const seek = e => go(at(t0 + (e.offsetX / paper.clientWidth) * dt));
    paper.addEventListener('pointerdown', seek);
    paper.addEventListener('pointermove', e => { if (e.buttons) seek(e); });
    close.addEventListener('click', () => { plots.splice(plots.indexOf(plot), 1); figure.remove(); });
    plots.push(plot);
    plot.cursor();
    return plot;
  }
  function fillSelect(select, list, first) {
    select.textContent = '';
    let group = null, parent = select;
    list = first ? [{name: first}, ...list] : list;
    list.forEach((item, i) => {
      if (item.group && item.group !== group) { parent = select.appendChild(document.createElement('optgroup')); parent.label = group = item.group; }
      const option = parent.appendChild(document.createElement('option'));
      option.value = i; option.textContent = item.name;
    });
  }
  byId('plotting').hidden = !data.moving || frames < 2;
  byId('plotting').addEventListener('toggle', () => {
    if (choices.length) return;
    listChoices();
    fillSelect(byId('series'), choices, 'choose ...');
  });
  byId('series').addEventListener('change', () => { const k = +byId('series').value; if (k > 0) addPlot(choices[k - 1]); byId('series').value = 0; });

  // ---- the panel -------------------------------------------------------------------------------------------------------------
  fillSelect(byId('camera'), data.cameras.map((c, i) => ({name: c.name || 'camera ' + i})), 'free');
  byId('camera').parentNode.hidden = !data.cameras.length;
  byId('camera').addEventListener('change', aim);
  fillSelect(byId('body'), data.bodies.map((_, b) => ({name: bodyName(b)})));
  byId('body').addEventListener('change', () => chooseBody(+byId('body').value));
  for (const n of used) {
    const label = byId('groups').appendChild(document.createElement('label')), box = label.appendChild(document.createElement('input'));
    box.type = 'checkbox'; box.checked = shown.has(n); box.id = 'group' + n;
    label.append(' ' + n);
    box.addEventListener('change', () => { if (box.checked) shown.add(n); else shown.delete(n); arrange(); });
  }
  byId('opacity').addEventListener('input', () => {
    for (const g of data.geoms) if (g.paint && g.type !== 0) { fade(g.paint, +byId('opacity').value); g.paint.needsUpdate = true; }
    dirty = true;
  });
  for (const id of ['shapes', 'sites', 'tendons', 'ground']) byId(id).addEventListener('change', arrange);
  for (const id of ['contacts', 'forces']) byId(id).addEventListener('change', () => { mark(frame); dirty = true; });
  byId('shadows').addEventListener('change', () => { sun.castShadow = byId('shadows').checked; dirty = true; });
  byId('sites').parentNode.hidden = !data.sites.length;
  byId('tendons').parentNode.hidden = !data.tendons.length;
  byId('contacts').parentNode.hidden = !touch;
  byId('forces').parentNode.hidden = !touch || !data.contacts.forces;

  // ---- keys ------------------------------------------------------------------------------------------------------------------
  const flip = id => { const box = byId(id); if (box && !box.parentNode.hidden) box.click(); };
  const keys = {
    ' ': () => { if (data.moving) set(!playing); }, ArrowRight: () => go(frame + 1), ArrowLeft: () => go(frame - 1), Home: () => go(0), End: () => go(frames - 1),
    a: () => orbit(-0.1, 0), d: () => orbit(0.1, 0), w: () => orbit(0, 0.1), s: () => orbit(0, -0.1), r: () => { start(); aim(); },
    '+': () => { view.distance *= 0.9; aim(); }, '=': () => keys['+'](), '-': () => { view.distance /= 0.9; aim(); },
    ',': () => { speed.selectedIndex = Math.max(0, speed.selectedIndex - 1); }, '.': () => { speed.selectedIndex = Math.min(speed.length - 1, speed.selectedIndex + 1); },
    c: () => flip('contacts'), g: () => flip('ghost'), f: () => flip('forces'), t: () => flip('tendons'), l: () => flip('sites'),
    h: () => { byId('shapes').value = byId('shapes').value === 'collision' ? 'seen' : 'collision'; arrange(); },
    v: () => { byId('camera').value = (+byId('camera').value + 1) % (data.cameras.length + 1); aim(); },
  };
  for (let n = 0; n < 6; n++) keys[n] = () => flip('group' + n);
  window.addEventListener('keydown', e => {
    const busy = e.target.tagName === 'SELECT' || e.target.tagName === 'INPUT' || e.target.tagName === 'SUMMARY' || e.target.tagName === 'BUTTON';
    const act = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey || busy && (e.key === ' ' || e.key.length > 1)) return;
    e.preventDefault();
    act();
  });
  function size() {
    renderer.setSize(stage.clientWidth, stage.clientHeight);
    camera.aspect = stage.clientWidth / stage.clientHeight;
    aim();
    for (const p of plots) p.cursor();
  }
  window.addEventListener('resize', size);
  function tick(t) {
    if (playing) {
      if (stamp) now += (t - stamp) / 1000 * +speed.value;
      stamp = t;
      if (now >= end) { now = end; pose(frames - 1); set(false); if (poster) set(true); } else if (at(now) !== frame) pose(at(now));
    }
    if (dirty) { dirty = false; renderer.render(scene, camera); }
    requestAnimationFrame(tick);
  }
  function showPoster() {
    const button = stage.appendChild(document.createElement('button'));
    document.body.classList.add('poster');
    button.id = 'start';
    button.setAttribute('aria-label', 'play ' + data.title);
    button.hidden = !data.moving || frames < 2;
    button.addEventListener('click', () => set(true));
    go(Math.round(poster[0] * (frames - 1)));
  }
  arrange();
  pose(0);
  size();
  renderer.render(scene, camera);
  renderer.getContext().finish();

  // ---- for scripts: what is drawn, and the time at which the first picture was ------------------------------------------------
  const poseOf = group => group && [...group.position.toArray(), group.quaternion.w, group.quaternion.x, group.quaternion.y, group.quaternion.z];
  window.pullback = {
    data, firstFrame: performance.now(), go, kinematics, addPlot, wrapPath, tendons: () => data.tendons.map(tendonPath), pick, camera, frame: () => frame, renderer,
    pose: b => poseOf(groups[b]), ghost: b => ghost && poseOf(ghost.groups.get(b)) || null,
    ghosts: () => data.geoms.filter(g => ['seenGhost', 'hullGhost'].some(key => g[key] && g[key].visible)).map(g => g.id),
    shown: () => data.geoms.filter(isShown).map(g => { const m = g.hullMesh && g.hullMesh.visible ? g.hullMesh : g.seenMesh; return {id: g.id, triangles: triangles(m)}; }),
    drawn() {  // triangles of geoms that the library drew: without shadows and all that is not a geom
      const shadows = sun.castShadow, hidden = [];
      scene.traverseVisible(o => { if ((o.isMesh || o.isLine || o.isPoints) && !data.geoms.includes(o.userData)) hidden.push(o); });
      hidden.forEach(o => { o.visible = false; });
      sun.castShadow = false;
      renderer.render(scene, camera);
      const count = renderer.info.render.triangles;
      hidden.forEach(o => { o.visible = true; });
      sun.castShadow = shadows;
      dirty = true;
      return count;
    },
    contacts: k => touch ? Array.from({length: data.contacts.start[k + 1] - data.contacts.start[k]}, (_, i) => [...touch.subarray(WIDE * (data.contacts.start[k] + i), WIDE * (data.contacts.start[k] + i + 1))]) : [],
    choices: () => { if (!choices.length) listChoices(); return choices; },
    joint(name, value) { makeSliders(); controls.find(c => c.name === name).write(value); },
    redraw: () => renderer.render(scene, camera),
  };
  if (poster) showPoster();
  else set(data.moving && frames > 1);
  requestAnimationFrame(tick);
}());
