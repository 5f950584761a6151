// Fluid forces: inertia-box and ellipsoid model (formulas: MuJoCo's manual, "Fluid forces"), and their velocity derivative
// as implicitfast takes it.
// Tests: tests/unit/test_fluid.c.
#include "base/assert.h"
#include "eval/mechanism.h"
#include "math/vec.h"
#include "model/topology.h"
#include "multibody/fluid.h"
#include "multibody/spatial.h"

#define TINY 1e-15  // MuJoCo's mjMINVAL

static inline num sq(num x) { return x * x; }
// a / b, 0 where b is not positive (the ellipsoid at rest: its quadratic forces vanish)
static inline num ratio(num a, num b) { return re(b) > 0 ? num_div(a, b) : 0; }

// ---- inertia box ------------------------------------------------------------------------------------------------------
// Edges of the box with the mass and inertia of the body.
static void box_edges(const num shape[4], num box[3]) {
  for (int k = 0; k < 3; k++) {
    num s = shape[1] + shape[2] + shape[3] - 2 * shape[1 + k];
    box[k] = num_sqrt(num_div(num_max(TINY, s), shape[0]) * 6.0);
  }
}

// Linear and quadratic drag coefficients: f_i = -(linear_i + quadratic_i |u_i|) u_i
static void box_drag(const num *medium, const num *shape, num linear[6], num quadratic[6]) {
  num box[3], density = medium[0], viscosity = medium[1];
  box_edges(shape, box);

  // Viscous drag of a sphere of the mean diameter, quadratic drag of the box's faces.
  num diameter = (box[0] + box[1] + box[2]) / 3.0;
  for (int k = 0; k < 3; k++) {
    int i = (k + 1) % 3, j = (k + 2) % 3;
    bool thick = re(viscosity) > 0 || im(viscosity) != 0, heavy = re(density) > 0 || im(density) != 0;  // slopes at zero, too
    linear[k] = thick ? PB_PI * diameter * diameter * diameter * viscosity : 0;
    linear[3 + k] = thick ? 3.0 * PB_PI * diameter * viscosity : 0;
    quadratic[k] = heavy ? density * box[k] * (sq(sq(box[i])) + sq(sq(box[j]))) / 64.0 : 0;
    quadratic[3 + k] = heavy ? 0.5 * density * box[i] * box[j] : 0;
  }
}

static void box_force(const num *medium, const num *shape, const num u[6], num f[6]) {
  num linear[6], quadratic[6];
  box_drag(medium, shape, linear, quadratic);
  for (int k = 0; k < 6; k++) f[k] = -linear[k] * u[k] - quadratic[k] * num_abs(u[k]) * u[k];
}

// df/du
static void box_damping(const num *medium, const num *shape, const num u[6], num B[36]) {
  num linear[6], quadratic[6];
  box_drag(medium, shape, linear, quadratic);
  for (int k = 0; k < 6; k++) B[7 * k] = -linear[k] - 2 * quadratic[k] * num_abs(u[k]);
}

// ---- ellipsoid --------------------------------------------------------------------------------------------------------
// Everything about an ellipsoid that its forces share.
typedef struct ellipsoid {
  num density, viscosity, interaction, blunt, slender, angular, kutta, magnus;
  const num *added_mass, *added_inertia;
  num square[3];  // (product of the two other semiaxes)^2
  num volume, area_max, diameter;
  num moment[3];      // quadratic drag about each axis
  num projection[2];  // v . N and N . N with N = square o v
  num area;           // projected along v
  num speed;
} ellipsoid;

static void semiaxes(int type, const num size[3], num s[3]) {
  v3_copy(s, size);
  if (type == pb_geomSphere) s[1] = s[2] = size[0];
  if (type == pb_geomCapsule) {
    s[1] = size[0];
    s[2] = size[1] + size[0];
  }
  if (type == pb_geomCylinder) {
    s[1] = size[0];
    s[2] = size[1];
  }
}

// Coefficients of quadratic angular drag: between blunt (largest moment) and the axis' own moment.
static void drag_moments(const num s[3], num largest, num middle, ellipsoid *e) {
  num top = 8.0 / 15.0 * PB_PI * middle * sq(sq(largest));
  for (int k = 0; k < 3; k++) {
    num own = 8.0 / 15.0 * PB_PI * s[k] * sq(sq(num_max(s[(k + 1) % 3], s[(k + 2) % 3])));
    e->moment[k] = e->angular * own + e->slender * (top - own);
  }
}

// The largest of three, or (sign -1) the smallest; several that are have even shares of the slope.
static num extreme_of(const num s[3], double sign) {
  double top = fmax(fmax(sign * re(s[0]), sign * re(s[1])), sign * re(s[2])), slope = 0, count = 0;
  for (int k = 0; k < 3; k++) {
    if (sign * re(s[k]) == top) {
      slope += im(s[k]);
      count++;
    }
  }
  return num_make(sign * top, slope / count);
}

static void ellipsoid_of(const NUM(pbFluidPart) *part, const num v[3], ellipsoid *e) {
  const num *c = part->shape + 3;
  num s[3];
  semiaxes(part->type, part->shape, s);

  e->density = part->medium[0];
  e->viscosity = part->medium[1];
  e->interaction = c[0];
  e->blunt = c[1];
  e->slender = c[2];
  e->angular = c[3];
  e->kutta = c[4];
  e->magnus = c[5];
  e->added_mass = c + 6;
  e->added_inertia = c + 9;

  num largest = extreme_of(s, 1), smallest = extreme_of(s, -1);
  num middle = s[0] + s[1] + s[2] - largest - smallest;
  e->volume = 4.0 / 3.0 * PB_PI * s[0] * s[1] * s[2];
  e->area_max = PB_PI * largest * middle;
  e->diameter = 2.0 / 3.0 * (s[0] + s[1] + s[2]);

  drag_moments(s, largest, middle, e);

  // Area of the ellipsoid's shadow along v: pi |N| / sqrt(v . N), N = square o v.
  e->projection[0] = e->projection[1] = 0;
  for (int k = 0; k < 3; k++) {
    e->square[k] = sq(s[(k + 1) % 3] * s[(k + 2) % 3]);
    e->projection[0] += e->square[k] * sq(v[k]);
    e->projection[1] += sq(e->square[k] * v[k]);
  }
  e->area = PB_PI * num_sqrt(ratio(e->projection[1], e->projection[0]));
  e->speed = v3_norm(v);
}

// Force of fluid carried along: momentum p = density (mass o v), torque p x v + l x w, force p x w; added.
static void added_mass(const ellipsoid *e, const num *w, const num *v, num f[6]) {
  num p[3], l[3];
  for (int k = 0; k < 3; k++) {
    p[k] = e->density * e->added_mass[k] * v[k];
    l[k] = e->density * e->added_inertia[k] * w[k];
  }

  v3_addcross(f, p, v);
  v3_addcross(f, l, w);
  v3_addcross(f + 3, p, w);
}

static void ellipsoid_force(const NUM(pbFluidPart) *part, const num u[6], num f[6]) {
  const num *w = u, *v = u + 3;
  ellipsoid e;
  ellipsoid_of(part, v, &e);
  num lift[3], normal[3], circulation[3], spinning[3];
  for (int k = 0; k < 3; k++) {
    normal[k] = e.square[k] * v[k];
    spinning[k] = e.moment[k] * w[k];
  }

  // Added mass, Magnus' force of spin and Kutta's lift.
  added_mass(&e, w, v, f);
  v3_cross(lift, w, v);
  // Magnus
  v3_addscl(f + 3, lift, e.magnus * e.density * e.volume);
  num cosine = ratio(e.projection[0], e.speed * e.projection[1]);
  v3_cross(circulation, normal, v);
  v3_cross(lift, circulation, v);
  v3_addscl(f + 3, lift, e.kutta * e.density * cosine * e.area);

  // Drag: viscous, and quadratic between blunt and slender.
  num drag =
      e.viscosity * 3.0 * PB_PI * e.diameter + e.density * e.speed * (e.area * e.blunt + e.slender * (e.area_max - e.area));
  num spin = e.viscosity * PB_PI * e.diameter * e.diameter * e.diameter + e.density * v3_norm(spinning);
  v3_addscl(f, w, -spin);
  v3_addscl(f + 3, v, -drag);

  for (int k = 0; k < 6; k++) f[k] *= e.interaction;
}

// ---- its velocity derivative; not scaled by the interaction coefficient, as in MuJoCo 4.0.0 (measured) -----------------
// B[rows row.., columns col..] += s [a]x, the matrix of the cross product a x
static void add_skew(num B[36], int row, int col, num s, const num a[3]) {
  num *r = B + 6 * row + col;
  r[1] -= s * a[2];
  r[2] += s * a[1];
  r[6] += s * a[2];
  r[8] -= s * a[0];
  r[12] -= s * a[1];
  r[13] += s * a[0];
}

// B += d(p x y), p = density (c o x): p x dy + (c dx) x y
static void add_momentum(num B[36], int row, int xcol, int ycol, num density, const num *c, const num *x, const num *y) {
  num p[3];
  for (int k = 0; k < 3; k++) p[k] = density * c[k] * x[k];

  // By y, then by x.
  add_skew(B, row, ycol, 1, p);

  num skew[36] = {0};
  add_skew(skew, 0, 0, -1, y);
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) B[6 * (row + i) + xcol + k] += density * c[k] * skew[6 * i + k];
  }
}

static void kutta_damping(const ellipsoid *e, const num v[3], num B[36]) {
  const num *a = e->square;
  num pn = e->projection[0], pd = e->projection[1], vv = v3_dot(v, v), d[3];

  // The lift is scale times a form of v; its derivative, term by term (MuJoCo's engine_passive).
  num scale = ratio(PB_PI * e->kutta * e->density, num_sqrt(pd * pn * vv)), thin = ratio(pn, pd), cosine = ratio(pn, vv);

  for (int k = 0; k < 3; k++) d[k] = a[k] * vv - pn;
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) {
      num s = (2 * pn * (a[k] - a[i]) + d[i] * (a[k] * a[k] * thin - a[k] + cosine)) * v[i] * v[k];
      if (i == k) s -= d[i] * pn;
      B[6 * (3 + i) + 3 + k] += scale * s;
    }
  }
}

static void drag_damping(const ellipsoid *e, const num v[3], num B[36]) {
  const num *a = e->square;
  num pn = e->projection[0], pd = e->projection[1], vv = v3_dot(v, v);
  num quadratic = e->density * (e->area * e->blunt + e->slender * (e->area_max - e->area));
  num per_speed = ratio(quadratic, e->speed);

  num slope = ratio(PB_PI, num_sqrt(pn * pn * pn * pd)) * e->density * e->speed * (e->blunt - e->slender);
  for (int k = 0; k < 3; k++) {
    num area = slope * a[k] * v[k] * (a[k] * pn - pd);  // |v| times the derivative of the projected area
    for (int i = 0; i < 3; i++) B[6 * (3 + i) + 3 + k] -= v[i] * (per_speed * v[k] + area);
    B[7 * (3 + k)] -= per_speed * vv + e->viscosity * 3.0 * PB_PI * e->diameter;
  }
}

// Torque -(linear + density |m o w|) w, m the moments: its derivative by w.
static void spin_damping(const ellipsoid *e, const num w[3], num B[36]) {
  num spinning[3];
  for (int k = 0; k < 3; k++) spinning[k] = e->moment[k] * w[k];
  num scale = ratio(e->density, v3_norm(spinning));

  num linear = e->viscosity * PB_PI * e->diameter * e->diameter * e->diameter;
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) B[6 * i + k] -= scale * w[i] * spinning[k] * e->moment[k];
    B[7 * i] -= scale * v3_dot(spinning, spinning) + linear;
  }
}

static void ellipsoid_damping(const NUM(pbFluidPart) *part, const num u[6], num B[36]) {
  const num *w = u, *v = u + 3;
  ellipsoid e;
  ellipsoid_of(part, v, &e);

  // One term for each of the force, in its order.
  add_momentum(B, 0, 3, 3, e.density, e.added_mass, v, v);
  add_momentum(B, 0, 0, 0, e.density, e.added_inertia, w, w);
  add_momentum(B, 3, 3, 0, e.density, e.added_mass, v, w);

  num magnus = e.magnus * e.density * e.volume;
  add_skew(B, 3, 3, magnus, w);
  add_skew(B, 3, 0, -magnus, v);

  kutta_damping(&e, v, B);
  drag_damping(&e, v, B);
  spin_damping(&e, w, B);
}

// ---- parts ------------------------------------------------------------------------------------------------------------
void NUM(pbFluid_LocalVelocity)(const NUM(pbFluidPart) *part, num u[6]) {
  num v[3];
  PB_POINTVEL(v, part->V, part->d);
  v3_subfrom(v, part->medium + 2);

  m3_tmulv(u, part->R, part->V);
  m3_tmulv(u + 3, part->R, v);
}

void NUM(pbFluid_LocalForce)(const NUM(pbFluidPart) *part, const num u[6], num f[6]) {
  memset(f, 0, 6 * sizeof(num));
  if (part->type == pb_fluidBox) {
    box_force(part->medium, part->shape, u, f);
  } else {
    ellipsoid_force(part, u, f);
  }
}

void NUM(pbFluid_LocalDamping)(const NUM(pbFluidPart) *part, const num u[6], num B[36]) {
  memset(B, 0, 36 * sizeof(num));
  if (part->type == pb_fluidBox) {
    box_damping(part->medium, part->shape, u, B);
  } else {
    ellipsoid_damping(part, u, B);
  }
  if (!part->symmetric) return;

  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < i; k++) B[6 * i + k] = B[6 * k + i] = 0.5 * (B[6 * i + k] + B[6 * k + i]);
  }
}

void NUM(pbFluid_Wrench)(const NUM(pbFluidPart) *part, num wrench[6]) {
  num u[6], f[6], torque[3], force[3];
  NUM(pbFluid_LocalVelocity)(part, u);
  NUM(pbFluid_LocalForce)(part, u, f);

  // Back to the world's axes and the reference point.
  m3_mulv(torque, part->R, f);
  m3_mulv(force, part->R, f + 3);
  PB_ADDWRENCH(wrench, 1, part->d, force);
  v3_addto(wrench, torque);
}

void NUM(pbFluid_PartDamping)(const NUM(pbFluidPart) *part, num B[36]) {
  num u[6], local[36];
  NUM(pbFluid_LocalVelocity)(part, u);
  NUM(pbFluid_LocalDamping)(part, u, local);

  // T: motion about ref -> local velocity, columns of unit motions; B += T' local T
  num T[36], LT[36];
  for (int c = 0; c < 6; c++) {
    num unit[6] = {0}, v[3], r[6];
    unit[c] = 1;
    PB_POINTVEL(v, unit, part->d);
    m3_tmulv(r, part->R, unit);
    m3_tmulv(r + 3, part->R, v);
    for (int k = 0; k < 6; k++) T[6 * k + c] = r[k];
  }
  for (int i = 0; i < 6; i++) {
    for (int c = 0; c < 6; c++) {
      num s = 0;
      for (int k = 0; k < 6; k++) s += local[6 * i + k] * T[6 * k + c];
      LT[6 * i + c] = s;
    }
  }
  for (int i = 0; i < 6; i++) {
    for (int c = 0; c < 6; c++) {
      for (int k = 0; k < 6; k++) B[6 * i + c] += T[6 * k + i] * LT[6 * k + c];
    }
  }
}

int NUM(pbFluid_Parts)(const NUM(pbMechanism) *w, int body, bool *box) {
  const pbModel *m = w->m;

  // A geom with an interaction coefficient replaces the box.
  *box = true;
  if (re(w->p.body_mass[body]) < TINY) return 0;
  for (int g = m->body_geomadr[body], end = g + m->body_geomnum[body]; g < end; g++) {
    if (!(re(w->p.geom_fluid[12 * g]) > 0)) continue;

    *box = false;
    return m->body_geomnum[body];
  }
  return 1;
}

// Does the body belong to a tree with an unsymmetric block of its own?
static bool standalone(const NUM(pbMechanism) *w, int body) {
  int root = w->t->tree_root[w->t->body_tree[body]];
  PB_ASSERT(w->m->body_jntnum[root] > 0);
  return free_standalone(w->m, w->m->body_jntadr[root]);
}

void NUM(pbFluid_Fill)(const NUM(pbMechanism) *w, int body, bool box, int index, NUM(pbFluidPart) *part) {
  const pbModel *m = w->m;
  int g = box ? 0 : m->body_geomadr[body] + index;

  // Its frame, and the body's velocity there.
  part->type = box ? pb_fluidBox : m->geom_type[g];
  part->symmetric = !box && m->integrator == pb_intImplicitfast && !standalone(w, body);

  body_offset(w, body, box ? w->xipos + 3 * body : w->geom_xpos + 3 * g, part->d);
  m3_copy(part->R, box ? w->ximat + 9 * body : w->geom_xmat + 9 * g);
  memcpy(part->V, w->V + 6 * body, sizeof part->V);

  part->medium[0] = w->p.density[0];
  part->medium[1] = w->p.viscosity[0];
  v3_copy(part->medium + 2, w->p.wind);

  memset(part->shape, 0, sizeof part->shape);
  if (box) {
    part->shape[0] = w->p.body_mass[body];
    v3_copy(part->shape + 1, w->p.body_inertia + 3 * body);
  } else {
    v3_copy(part->shape, w->p.geom_size + 3 * g);
    memcpy(part->shape + 3, w->p.geom_fluid + 12 * g, 12 * sizeof(num));
  }
}

bool NUM(pbFluid_Sloped)(const NUM(pbMechanism) *w, int geom) {
  return re(w->p.geom_fluid[12 * geom]) == 0 && w->m->integrator != pb_intImplicitfast;
}

bool NUM(pbFluid_Take)(const NUM(pbMechanism) *w, int body, bool box, int index, NUM(pbFluidPart) *part) {
  int g = box ? 0 : w->m->body_geomadr[body] + index;
  num interaction = w->p.geom_fluid[12 * g];
  if (!box && re(interaction) == 0 && (im(interaction) == 0 || !NUM(pbFluid_Sloped)(w, g))) return false;

  NUM(pbFluid_Fill)(w, body, box, index, part);
  return true;
}

void NUM(pbFluid_Body)(const NUM(pbMechanism) *w, int body, num wrench[6]) {
  NUM(pbFluidPart) part;
  bool box;
  for (int k = 0, n = NUM(pbFluid_Parts)(w, body, &box); k < n; k++) {
    if (NUM(pbFluid_Take)(w, body, box, k, &part)) NUM(pbFluid_Wrench)(&part, wrench);
  }
}

void NUM(pbFluid_Damping)(const NUM(pbMechanism) *w, int body, num B[36]) {
  NUM(pbFluidPart) part;
  bool box;
  for (int k = 0, n = NUM(pbFluid_Parts)(w, body, &box); k < n; k++) {
    if (NUM(pbFluid_Take)(w, body, box, k, &part)) NUM(pbFluid_PartDamping)(&part, B);
  }
}

// ---- a medium that is not there -----------------------------------------------------------------------------------------
// power += X . (wrench per unit of density), X . (wrench per unit of viscosity) of a geom, X the part's own motion. The wrench
// is linear in both: one medium at a time.
static void unit_power(NUM(pbFluidPart) *part, const num X[6], num power[2]) {
  for (int k = 0; k < 2; k++) {
    num wrench[6] = {0};
    part->medium[k] = 1;
    part->medium[1 - k] = 0;
    NUM(pbFluid_Wrench)(part, wrench);
    power[k] += PB_DOT6(X, wrench);
  }
}

void NUM(pbFluid_UnitPower)(const NUM(pbMechanism) *w, int body, const num X[6], num power[2]) {
  NUM(pbFluidPart) part;
  bool box;
  for (int k = 0, n = NUM(pbFluid_Parts)(w, body, &box); k < n; k++) {
    if (NUM(pbFluid_Take)(w, body, box, k, &part)) unit_power(&part, X, power);
  }
}

// Motion about ref -> own frame of the part.
static void inward(const NUM(pbFluidPart) *part, const num X[6], num x[6]) {
  num v[3];
  PB_POINTVEL(v, X, part->d);
  m3_tmulv(x, part->R, X);
  m3_tmulv(x + 3, part->R, v);
}

void NUM(pbFluid_UnitDamping)(const NUM(pbMechanism) *w, const num *Y, const num *X, const num *Xless, num power[2]) {
  NUM(pbFluidPart) part;
  bool box;
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] < 0) continue;
    num Z[6], u[6], y[6], z[6], B[36];

    for (int k = 0; k < 6; k++) Z[k] = X[6 * b + k] - Xless[6 * b + k];
    for (int k = 0, n = NUM(pbFluid_Parts)(w, b, &box); k < n; k++) {
      if (!NUM(pbFluid_Take)(w, b, box, k, &part)) continue;
      NUM(pbFluid_LocalVelocity)(&part, u);
      inward(&part, Y + 6 * b, y);
      inward(&part, Z, z);

      // Damping is linear in density and viscosity: one at a time.
      for (int which = 0; which < 2; which++) {
        part.medium[which] = 1;
        part.medium[1 - which] = 0;
        NUM(pbFluid_LocalDamping)(&part, u, B);
        for (int i = 0; i < 36; i++) power[which] += y[i / 6] * B[i] * z[i % 6];
      }
    }
  }
}
