// Contacts of shape pairs: numbers measured from MuJoCo 4.0.0 where there is one to match, optimality where there is not,
// Jacobians against complex step and differences for all pairs, and hostile input.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "geometry/pair.h"
#include "math/vec.h"
#include "model/model.h"

#include "geometry_cases.inc"  // static const geometry_case cases[]
#include "support/support.h"

static const int types[] = {pb_geomPlane, pb_geomSphere, pb_geomCapsule, pb_geomEllipsoid, pb_geomCylinder, pb_geomBox};
static const char *const names[] = {"plane", "", "sphere", "capsule", "ellipsoid", "cylinder", "box"};

static void random_vector(uint64_t *seed, double v[3]) {
  do {
    for (int i = 0; i < 3; i++) v[i] = random_unit(seed);
  } while (v3_norm(v) > 1 || v3_norm(v) < 1e-3);
}

static pbShape_r random_shape(uint64_t *seed, int type) {
  pbShape_r s = {.type = type};
  random_rotation(seed, s.mat);
  for (int i = 0; i < 3; i++) {
    s.pos[i] = 0.3 * random_unit(seed);
    s.size[i] = 0.25 + 0.2 * random_unit(seed);
  }
  return s;
}

static bool convex_pair(int type1, int type2) {
  if (type1 == pb_geomPlane) return false;
  if (type1 == pb_geomEllipsoid || type2 == pb_geomEllipsoid) return true;
  return (type1 == pb_geomCapsule && type2 == pb_geomCylinder) || type1 == pb_geomCylinder;
}

// ---- numbers --------------------------------------------------------------------------------------------------------
static void test_equals_mujoco(void **unused) {
  (void)unused;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const geometry_case *t = &cases[c];
    pbShape_r s1 = {.type = t->type1}, s2 = {.type = t->type2};
    memcpy(s1.pos, t->pos1, sizeof s1.pos);
    memcpy(s1.size, t->size1, sizeof s1.size);
    quat_to_mat(s1.mat, t->quat1);
    memcpy(s2.pos, t->pos2, sizeof s2.pos);
    memcpy(s2.size, t->size2, sizeof s2.size);
    quat_to_mat(s2.mat, t->quat2);
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
    int count = pbPair_Collide_r(&s1, &s2, t->margin, contacts);
    if (count != t->count) fail_msg("case %zu, %s-%s: %d contacts, not %d", c, names[t->type1], names[t->type2], count, t->count);
    for (int k = 0; k < count; k++) {
      double error = fabs(contacts[k].dist - t->contacts[k][0]);
      for (int i = 0; i < 3; i++) {
        error = fmax(error,
                     fmax(fabs(contacts[k].pos[i] - t->contacts[k][1 + i]), fabs(contacts[k].normal[i] - t->contacts[k][4 + i])));
      }
      if (!(error < 1e-12)) fail_msg("case %zu, %s-%s, contact %d: off by %g", c, names[t->type1], names[t->type2], k, error);
    }
  }
}

// ---- optimality -----------------------------------------------------------------------------------------------------
// Farthest point along n, in the world.
static void support(const pbShape_r *s, const double n[3], double out[3]) {
  double m[3], p[3] = {0, 0, 0};
  m3_tmulv(m, s->mat, n);
  double len = v3_norm(m), rho = sqrt(m[0] * m[0] + m[1] * m[1]), top = m[2] >= 0 ? 1 : -1;
  if (s->type == pb_geomSphere || s->type == pb_geomCapsule) {
    v3_scale(p, m, s->size[0] / len);
    if (s->type == pb_geomCapsule) p[2] += top * s->size[1];
  } else if (s->type == pb_geomEllipsoid) {
    double l2 = 0;
    for (int i = 0; i < 3; i++) l2 += s->size[i] * s->size[i] * m[i] * m[i];
    for (int i = 0; i < 3; i++) p[i] = s->size[i] * s->size[i] * m[i] / sqrt(l2);
  } else if (s->type == pb_geomBox) {
    for (int i = 0; i < 3; i++) p[i] = m[i] >= 0 ? s->size[i] : -s->size[i];
  } else {
    if (rho > 0) {
      p[0] = s->size[0] * m[0] / rho;
      p[1] = s->size[0] * m[1] / rho;
    }
    p[2] = top * s->size[1];
  }
  m3_mulv(out, s->mat, p);
  v3_addto(out, s->pos);
}

static double overlap(const pbShape_r *s1, const pbShape_r *s2, const double n[3]) {
  double a[3], b[3], back[3];
  v3_neg(back, n);
  support(s1, n, a);
  support(s2, back, b);
  v3_subfrom(a, b);
  return v3_dot(a, n);
}

// How far, about, a point lies outside a shape.
static double outside(const pbShape_r *s, const double point[3]) {
  double d[3], p[3];
  v3_sub(d, point, s->pos);
  m3_tmulv(p, s->mat, d);
  double rho = sqrt(p[0] * p[0] + p[1] * p[1]);
  switch (s->type) {
    case pb_geomSphere: return v3_norm(p) - s->size[0];
    case pb_geomCapsule: p[2] -= num_clip(p[2], -s->size[1], s->size[1]); return v3_norm(p) - s->size[0];
    case pb_geomEllipsoid: {
      double q[3] = {p[0] / s->size[0], p[1] / s->size[1], p[2] / s->size[2]};
      return (v3_norm(q) - 1) * fmin(s->size[0], fmin(s->size[1], s->size[2]));
    }
    case pb_geomCylinder: return fmax(rho - s->size[0], fabs(p[2]) - s->size[1]);
    default: return fmax(fabs(p[0]) - s->size[0], fmax(fabs(p[1]) - s->size[1], fabs(p[2]) - s->size[2]));
  }
}

// Many directions, the best pulled downhill: no contact normal may show more overlap than this.
static double smallest_overlap(const pbShape_r *s1, const pbShape_r *s2, uint64_t *seed) {
  double best[3] = {0}, lowest = INFINITY;
  for (int k = 0; k < 500; k++) {
    double n[3];
    random_vector(seed, n);
    v3_normalize(n);
    double value = overlap(s1, s2, n);
    if (value < lowest) {
      lowest = value;
      v3_copy(best, n);
    }
  }
  for (double width = 0.2; width > 1e-8; width *= 0.85) {
    for (int k = 0; k < 12; k++) {
      double n[3];
      random_vector(seed, n);
      v3_along(n, best, n, width);
      v3_normalize(n);
      double value = overlap(s1, s2, n);
      if (value < lowest) {
        lowest = value;
        v3_copy(best, n);
      }
    }
  }
  return lowest;
}

// Two shapes at a known distance: put together along a common normal. For overlapping ones the normal is only a start.
static void place(uint64_t *seed, int type1, int type2, double gap, pbShape_r *s1, pbShape_r *s2, double n[3]) {
  double a[3], b[3], back[3];
  *s1 = random_shape(seed, type1);
  *s2 = random_shape(seed, type2);
  random_vector(seed, n);
  v3_normalize(n);
  v3_neg(back, n);
  support(s1, n, a);
  support(s2, back, b);
  v3_addscl(a, n, gap);
  v3_subfrom(a, b);
  v3_addto(s2->pos, a);
}

static void check_witness(const pbShape_r *s1, const pbShape_r *s2, const pbContactPoint_r *contact) {
  double p1[3], p2[3];
  v3_along(p1, contact->pos, contact->normal, -0.5 * contact->dist);
  v3_along(p2, contact->pos, contact->normal, 0.5 * contact->dist);
  assert_true(outside(s1, p1) < 1e-9);
  assert_true(outside(s2, p2) < 1e-9);
}

// Apart: one distance and one normal. Overlapping: the depth is that of its normal, and no direction shows less.
static void test_convex_is_optimal(void **unused) {
  (void)unused;
  uint64_t seed = 3;
  for (int i = 1; i < 6; i++) {
    for (int j = i; j < 6; j++) {
      if (!convex_pair(types[i], types[j])) continue;
      for (int trial = 0; trial < 150; trial++) {
        pbShape_r s1, s2;
        pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
        double n[3], gap = trial % 3 ? -0.05 * fabs(random_unit(&seed)) : 0.1 * fabs(random_unit(&seed));
        place(&seed, types[i], types[j], gap, &s1, &s2, n);
        int count = pbPair_Collide_r(&s1, &s2, 0.1, contacts), deepest = 0;
        assert_in_range(count, 1, PB_MAX_CONTACT_POINTS);
        for (int k = 0; k < count; k++) {
          check_witness(&s1, &s2, &contacts[k]);
          if (contacts[k].dist < contacts[deepest].dist) deepest = k;
        }
        const pbContactPoint_r *contact = &contacts[deepest];
        double own = -overlap(&s1, &s2, contact->normal), most = -smallest_overlap(&s1, &s2, &seed);
        if (!(fabs(own - contact->dist) < 1e-9))
          fail_msg("%s-%s %d: %g is not the depth of its normal", names[types[i]], names[types[j]], trial, contact->dist);
        if (!(contact->dist > most - 1e-9))
          fail_msg("%s-%s %d: distance %.12g, but a direction shows %.12g", names[types[i]], names[types[j]], trial,
                   contact->dist, most);
        if (gap < 0) continue;
        assert_float_equal(contact->dist, gap, 1e-9);
        for (int c = 0; c < 3; c++) assert_float_equal(contact->normal[c], n[c], 1e-7);
      }
    }
  }
}

static void upright(pbShape_r *s, int type, double x, double y, double z, double a, double b, double c) {
  *s = (pbShape_r){.type = type, .pos = {x, y, z}, .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .size = {a, b, c}};
}

// Flat on flat: contacts on all sides of the centre of mass, all at the same depth, and the same a hair away from flat.
static void test_rests_on_several_contacts(void **unused) {
  (void)unused;
  pbShape_r box, standing, lying, capsule, below, edge;
  upright(&box, pb_geomBox, 0, 0, 0, 1, 1, 0.5);
  upright(&standing, pb_geomCylinder, 0.2, 0.1, 0.799, 0.2, 0.3, 0);
  upright(&below, pb_geomCylinder, 0.2, 0.1, 0, 0.5, 0.5, 0);
  upright(&lying, pb_geomCylinder, 0.1, 0.2, 0.699, 0.2, 0.3, 0);
  lying.mat[0] = 0;
  lying.mat[2] = 1;
  lying.mat[6] = -1;
  lying.mat[8] = 0;                                                // axis along x
  upright(&edge, pb_geomCylinder, 0.85, 0.1, 0.799, 0.2, 0.3, 0);  // stands over the edge of the box
  capsule = lying;
  capsule.type = pb_geomCapsule;
  const struct {
    const pbShape_r *s1, *s2;
    int least;
  } pairs[] = {{&standing, &box, 3},   {&edge, &box, 6},    {&lying, &box, 2},
               {&below, &standing, 3}, {&lying, &below, 2}, {&capsule, &below, 2}};
  for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
    for (double tilt = 0; tilt<1e-3; tilt = tilt> 0 ? 10 * tilt : 1e-13) {
      pbShape_r s1 = *pairs[k].s1, s2 = *pairs[k].s2;
      pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
      double q[4], axis[3] = {0.6, 0.8, 0}, turn[9], mat[9], torque[2] = {0, 0}, lowest[2] = {1, 1}, highest[2] = {-1, -1};
      pbShape_r *top = s1.pos[2] > s2.pos[2] ? &s1 : &s2;
      quat_axisangle(q, axis, tilt);
      quat_to_mat(turn, q);
      m3_mul(mat, turn, top->mat);
      m3_copy(top->mat, mat);
      int count = pbPair_Collide_r(&s1, &s2, 0, contacts);
      if (count < pairs[k].least) fail_msg("pair %zu tilted by %g: %d contacts", k, tilt, count);
      for (int h = 0; h < count; h++) {
        assert_float_equal(contacts[h].dist, -1e-3, 0.4 * tilt + 1e-9);
        assert_float_equal(fabs(contacts[h].normal[2]), 1, 1e-6);
        for (int i = 0; i < 2; i++) {
          torque[i] = contacts[h].pos[i] - top->pos[i];
          lowest[i] = fmin(lowest[i], torque[i]);
          highest[i] = fmax(highest[i], torque[i]);
        }
      }
      // Held against turning about y and x: by at least half a radius.
      assert_true(lowest[0] < -0.0999 && highest[0] > 0.0999);
      if (pairs[k].least > 2) assert_true(lowest[1] < -0.0999 && highest[1] > 0.0999);
    }
  }
}

// ---- Jacobians ------------------------------------------------------------------------------------------------------
static void lift(const pbShape_r *in, pbShape_c *out) {
  out->type = in->type;
  for (int i = 0; i < 3; i++) {
    out->pos[i] = in->pos[i];
    out->size[i] = in->size[i];
  }
  for (int i = 0; i < 9; i++) out->mat[i] = in->mat[i];
}

// Derivatives of all contacts along a direction: rotation and translation of shape 2, both sizes.
static void complex_step(const pbShape_r *s1, const pbShape_r *s2, double margin, const double way[12], int count,
                         double out[][10]) {
  pbShape_c c1, c2;
  pbContactPoint_c contacts[PB_MAX_CONTACT_POINTS];
  lift(s1, &c1);
  lift(s2, &c2);
  for (int k = 0; k < 3; k++) {
    double col[3], turned[3];
    m3_col(col, s2->mat, k);
    v3_cross(turned, way, col);
    for (int i = 0; i < 3; i++) __imag__ c2.mat[3 * i + k] = PB_IMAG_STEP * turned[i];
    __imag__ c2.pos[k] = PB_IMAG_STEP * way[3 + k];
    __imag__ c1.size[k] = PB_IMAG_STEP * way[6 + k];
    __imag__ c2.size[k] = PB_IMAG_STEP * way[9 + k];
  }
  assert_int_equal(pbPair_Collide_c(&c1, &c2, margin, contacts), count);
  for (int k = 0; k < count; k++) {
    const double *value = (const double *)&contacts[k];
    for (int r = 0; r < 10; r++) out[k][r] = value[2 * r + 1] / PB_IMAG_STEP;
  }
}

// The pair with shape 2 moved, or a size changed, by h along a column.
static int moved(const pbShape_r *s1, const pbShape_r *s2, double margin, int column, double h, pbContactPoint_r *contacts) {
  pbShape_r a = *s1, b = *s2;
  if (column < 3) {
    double q[4], axis[3] = {column == 0, column == 1, column == 2}, turn[9];
    quat_axisangle(q, axis, h);
    quat_to_mat(turn, q);
    m3_mul(b.mat, turn, s2->mat);
  } else {
    *(column < 6 ? &b.pos[column - 3] : column < 9 ? &a.size[column - 6] : &b.size[column - 9]) += h;
  }
  return pbPair_Collide_r(&a, &b, margin, contacts);
}

static const double *rows(const pbContactPoint_r *contact) { return &contact->dist; }

// Differences, where the contacts keep their features: the two one-sided ones agree.
static bool difference_column(const pbShape_r *s1, const pbShape_r *s2, double margin, int column, int count,
                              const pbContactPoint_r *contacts, double out[][10]) {
  const double h = 1e-6;
  pbContactPoint_r up[PB_MAX_CONTACT_POINTS], down[PB_MAX_CONTACT_POINTS];
  if (moved(s1, s2, margin, column, h, up) != count || moved(s1, s2, margin, column, -h, down) != count) return false;
  for (int k = 0; k < count; k++) {
    for (int r = 0; r < 10; r++) {
      double right = (rows(&up[k])[r] - rows(&contacts[k])[r]) / h, left = (rows(&contacts[k])[r] - rows(&down[k])[r]) / h;
      if (!(fabs(right - left) < 1e-2 * (1 + fabs(right)))) return false;
      out[k][r] = 0.5 * (right + left);
    }
  }
  return true;
}

// Both programs round what cancels: a normal toward a box from a point this near to it turns by rounding over the distance.
static double rounding_of(const pbShape_r *s1, const pbShape_r *s2, const pbContactPoint_r *contact) {
  bool ball = s1->type == pb_geomSphere || s1->type == pb_geomCapsule;
  double gap = contact->dist + s1->size[0];
  return ball && s2->type == pb_geomBox && gap > 1e-9 ? 1e-17 / (gap * gap) : 0;
}

static void test_jacobians(void **unused) {
  (void)unused;
  uint64_t seed = 11;
  for (int i = 0; i < 6; i++) {
    for (int j = i ? i : 1; j < 6; j++) {
      int compared = 0, found = 0;
      for (int trial = 0; trial < 60; trial++) {
        pbShape_r s1 = random_shape(&seed, types[i]), s2 = random_shape(&seed, types[j]);
        pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
        pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
        double exact[PB_MAX_CONTACT_POINTS][10], quotient[PB_MAX_CONTACT_POINTS][10], margin = trial % 2 ? 0.1 : 0;
        if (trial % 5 == 0) m3_copy(s2.mat, s1.mat);  // parallel
        int count = pbPair_Collide_r(&s1, &s2, margin, contacts);
        pbPair_Jacobian_r(&s1, &s2, margin, NULL, count, contacts, jac);
        found += count > 0;
        for (int column = 0; column < 12 && count; column++) {
          double way[12] = {0};
          way[column] = 1;
          complex_step(&s1, &s2, margin, way, count, exact);
          bool smooth = difference_column(&s1, &s2, margin, column, count, contacts, quotient);
          compared += smooth;
          for (int k = 0; k < count; k++) {
            for (int r = 0; r < 10; r++) {
              double d = jac[k].d[r][column];
              if (!(fabs(d - exact[k][r]) < 1e-12 * (1 + fabs(d)) * (1 + fabs(d)) + rounding_of(&s1, &s2, &contacts[k])))
                fail_msg("%s-%s %d row %d column %d: %.15g, complex step %.15g", names[types[i]], names[types[j]], trial, r,
                         column, d, exact[k][r]);
              if (smooth && !(fabs(d - quotient[k][r]) < 1e-6 * (1 + fabs(d)) * (1 + fabs(d))))
                fail_msg("%s-%s %d row %d column %d: %.9g, difference %.9g", names[types[i]], names[types[j]], trial, r, column,
                         d, quotient[k][r]);
            }
          }
        }
      }
      assert_true(found > 20 && compared > 6 * found);
    }
  }
}

// Along any direction, near and far, the Jacobian and the complex program say the same; also where both shapes lie level in one
// plane, as limbs on parallel hinges do: components that are exactly zero there stay so whatever moves.
static void test_combined_directions(void **unused) {
  (void)unused;
  uint64_t seed = 21;
  for (int i = 0; i < 6; i++) {
    for (int j = i ? i : 1; j < 6; j++) {
      int found = 0;
      for (int trial = 0; trial < 200; trial++) {
        pbShape_r s1 = random_shape(&seed, types[i]), s2 = random_shape(&seed, types[j]);
        double way[12], margin = trial % 3 ? 0.5 : 0.01, exact[PB_MAX_CONTACT_POINTS][10];
        for (int k = 0; k < 2 && trial % 2; k++) {
          double angle = PB_PI * random_unit(&seed);
          quat_to_mat(k ? s2.mat : s1.mat, (double[4]){cos(0.5 * angle), 0, sin(0.5 * angle), 0});
        }
        if (trial % 4 == 1) upright(&s2, types[j], s2.pos[0], s2.pos[1], s2.pos[2], s2.size[0], s2.size[1], s2.size[2]);
        pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
        pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
        int count = pbPair_Collide_r(&s1, &s2, margin, contacts);
        found += count > 0;
        pbPair_Jacobian_r(&s1, &s2, margin, NULL, count, contacts, jac);
        for (int turn = 0; turn < 4 && count; turn++) {
          for (int c = 0; c < 12; c++) way[c] = random_unit(&seed);
          complex_step(&s1, &s2, margin, way, count, exact);
          for (int k = 0; k < count * 10; k++) {
            double sum = 0, size = 1;
            for (int c = 0; c < 12; c++) {
              sum += jac[k / 10].d[k % 10][c] * way[c];
              size += fabs(jac[k / 10].d[k % 10][c]);
            }
            if (!(fabs(sum - exact[k / 10][k % 10]) < 1e-12 * size * size + rounding_of(&s1, &s2, &contacts[k / 10])))
              fail_msg("%s-%s %d contact %d row %d: %.15g, complex step %.15g", names[types[i]], names[types[j]], trial, k / 10,
                       k % 10, sum, exact[k / 10][k % 10]);
          }
        }
      }
      assert_true(found > 80);
    }
  }
}

// ---- ties -----------------------------------------------------------------------------------------------------------
static void check_exact(const char *what, const pbShape_r *s1, const pbShape_r *s2, int column, int count,
                        const pbContactJacobian *jac) {
  double way[12] = {0}, exact[PB_MAX_CONTACT_POINTS][10];
  way[column] = 1;
  complex_step(s1, s2, 0.1, way, count, exact);
  for (int k = 0; k < count * 10; k++) {
    double d = jac[k / 10].d[k % 10][column];
    if (!(fabs(d - exact[k / 10][k % 10]) < 1e-12 * (1 + fabs(d))))
      fail_msg("%s, contact %d row %d column %d: %.12g, complex step %.12g", what, k / 10, k % 10, column, d,
               exact[k / 10][k % 10]);
  }
}

// Parallel capsules touch at both ends of their overlap. Where two ends lie side by side both bound it, and the slopes are the central
// differences: half of those of either.
static void test_capsules_side_by_side(void **unused) {
  (void)unused;
  const struct {
    const char *what;
    double half, along, way;  // of the second: half length, place along the first, direction
  } ties[] = {{"both ends", 0.3, 0, 1},
              {"both ends, opposite", 0.3, 0, -1},
              {"upper ends", 0.2, 0.1, 1},
              {"lower ends", 0.2, -0.1, 1},
              {"lower ends, opposite", 0.5, 0.2, -1},
              {"both ends to rounding", 0.3, 4e-16, 1},
              {"one behind the other", 0.2, 0.5, 1}};
  for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
    pbShape_r s1, s2;
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS], up[PB_MAX_CONTACT_POINTS], down[PB_MAX_CONTACT_POINTS];
    pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
    upright(&s1, pb_geomCapsule, 0.1, 0.2, 0.3, 0.1, 0.3, 0);
    upright(&s2, pb_geomCapsule, 0.31, 0.2, 0.3 + ties[i].along, 0.1, ties[i].half, 0);
    s2.mat[4] = s2.mat[8] = ties[i].way;
    assert_int_equal(pbPair_Collide_r(&s1, &s2, 0.1, contacts), 2);
    assert_int_equal(pbPair_Feature_r(&s1, &s2), -1);
    pbPair_Jacobian_r(&s1, &s2, 0.1, NULL, 2, contacts, jac);
    for (int column = 0; column < 12; column++) {
      const double h = 1e-6;
      if (column == 8 || column == 11) continue;  // no size
      check_exact(ties[i].what, &s1, &s2, column, 2, jac);
      assert_int_equal(moved(&s1, &s2, 0.1, column, h, up), 2);
      assert_int_equal(moved(&s1, &s2, 0.1, column, -h, down), 2);
      for (int k = 0; k < 20; k++) {
        double d = jac[k / 10].d[k % 10][column], wanted = (rows(&up[k / 10])[k % 10] - rows(&down[k / 10])[k % 10]) / (2 * h);
        if (!(fabs(d - wanted) < 1e-5))
          fail_msg("%s, contact %d row %d column %d: %.9g, difference %.9g", ties[i].what, k / 10, k % 10, column, d, wanted);
      }
    }
  }
}

// Force and torque about the cylinder's centre, of forces along the normal that are proportional to depth.
static void load(const pbContactPoint_r *contacts, int count, const double center[3], double out[6]) {
  memset(out, 0, 6 * sizeof *out);
  for (int k = 0; k < count; k++) {
    double arm[3], torque[3], force = 0.01 - contacts[k].dist;
    v3_sub(arm, contacts[k].pos, center);
    v3_cross(torque, arm, contacts[k].normal);
    for (int i = 0; i < 3; i++) {
      out[i] += force * contacts[k].normal[i];
      out[3 + i] += force * torque[i];
    }
  }
}

// A cylinder that stands on a plane, upright or nearly: its contacts jump around the rim as it tilts, but not what they hold. That
// has the slopes of contacts that stay with the cylinder.
static void test_standing_cylinder(void **unused) {
  (void)unused;
  for (double tilt = 0; tilt<1e-6; tilt = tilt> 0 ? 100 * tilt : 1e-17) {
    pbShape_r plane, cylinder;
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS], up[PB_MAX_CONTACT_POINTS], down[PB_MAX_CONTACT_POINTS];
    pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
    double q[4] = {1, 0.5 * tilt * 0.8, 0.5 * tilt * 0.6, 0};
    upright(&plane, pb_geomPlane, 0, 0, 0, 1, 1, 1);
    upright(&cylinder, pb_geomCylinder, 0.1, 0.2, 0.299, 0.2, 0.3, 0);
    quat_to_mat(cylinder.mat, q);
    int count = pbPair_Collide_r(&plane, &cylinder, 0.1, contacts);
    assert_int_equal(count, 3);
    assert_int_equal(pbPair_Feature_r(&plane, &cylinder), -1);
    pbPair_Jacobian_r(&plane, &cylinder, 0.1, NULL, count, contacts, jac);
    for (int column = 0; column < 6; column++) {
      const double h = 1e-4;
      double held[2][6], rate[2][6];
      pbContactPoint_r ahead[PB_MAX_CONTACT_POINTS], behind[PB_MAX_CONTACT_POINTS];
      check_exact("a standing cylinder", &plane, &cylinder, column, count, jac);
      memcpy(ahead, contacts, sizeof contacts);
      memcpy(behind, contacts, sizeof contacts);
      for (int k = 0; k < 10 * count; k++) {
        double step = h * jac[k / 10].d[k % 10][column];
        (&ahead[k / 10].dist)[k % 10] += step;
        (&behind[k / 10].dist)[k % 10] -= step;
      }
      assert_int_equal(moved(&plane, &cylinder, 0.1, column, h, up), 3);
      assert_int_equal(moved(&plane, &cylinder, 0.1, column, -h, down), 3);
      load(up, 3, cylinder.pos, held[0]);
      load(down, 3, cylinder.pos, held[1]);
      load(ahead, 3, cylinder.pos, rate[0]);
      load(behind, 3, cylinder.pos, rate[1]);
      for (int i = 0; i < 6; i++) {
        double got = (rate[0][i] - rate[1][i]) / (2 * h), wanted = (held[0][i] - held[1][i]) / (2 * h);
        if (!(fabs(got - wanted) < 1e-4))
          fail_msg("tilted by %g, part %d of the load by column %d: %.9g, difference %.9g", tilt, i, column, got, wanted);
      }
    }
  }
}

// A box that lies on another: both touching faces are equally deep, and any tilt takes the normal of the wider one, in either order
// of the two, spun or not.
static void test_box_on_wider_box(void **unused) {
  (void)unused;
  for (int trial = 0; trial < 8; trial++) {
    pbShape_r wide, narrow;
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
    pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
    double quotient[PB_MAX_CONTACT_POINTS][10], angle = trial & 2 ? 0.35 : 0, side = trial & 4 ? -1 : 1;
    upright(&wide, pb_geomBox, 0.1, 0.2, 0.3, 0.4, 0.3, 0.1);
    upright(&narrow, pb_geomBox, 0.12, 0.17, 0.3 + 0.19 * side, 0.15, 0.12, 0.1);
    quat_to_mat(narrow.mat, (double[4]){cos(angle), 0, 0, sin(angle)});

    const pbShape_r *s1 = trial & 1 ? &wide : &narrow, *s2 = trial & 1 ? &narrow : &wide;
    int count = pbPair_Collide_r(s1, s2, 0, contacts);
    assert_int_equal(count, 4);
    pbPair_Jacobian_r(s1, s2, 0, NULL, count, contacts, jac);
    for (int column = 0; column < 6; column++) {
      assert_true(difference_column(s1, s2, 0, column, count, contacts, quotient));
      for (int k = 0; k < 10 * count; k++) {
        double d = jac[k / 10].d[k % 10][column], wanted = quotient[k / 10][k % 10];
        if (!(fabs(d - wanted) < 1e-6))
          fail_msg("trial %d contact %d row %d column %d: %.9g, difference %.9g", trial, k / 10, k % 10, column, d, wanted);
      }
    }
  }
}

// Boxes apart: nearest points of two edges at their ends.
static void test_boxes_apart(void **unused) {
  (void)unused;
  uint64_t seed = 29;
  int edges = 0;
  for (int trial = 0; trial < 300; trial++) {
    pbShape_r s1 = random_shape(&seed, pb_geomBox), s2 = random_shape(&seed, pb_geomBox);
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
    pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
    double away[3];
    random_vector(&seed, away);
    v3_addscl(s2.pos, away, 1.5);
    int count = pbPair_Collide_r(&s1, &s2, 3, contacts);
    pbPair_Jacobian_r(&s1, &s2, 3, NULL, count, contacts, jac);
    edges += count == 1;
    for (int column = 0; column < 12 && count; column++) {
      double way[12] = {0}, exact[PB_MAX_CONTACT_POINTS][10];
      way[column] = 1;
      complex_step(&s1, &s2, 3, way, count, exact);
      for (int k = 0; k < 10 * count; k++) {
        double d = jac[k / 10].d[k % 10][column];
        if (!(fabs(d - exact[k / 10][k % 10]) < 1e-12 * (1 + fabs(d)) * (1 + fabs(d))))
          fail_msg("%d contact %d row %d column %d: %.15g, complex step %.15g", trial, k / 10, k % 10, column, d,
                   exact[k / 10][k % 10]);
      }
    }
  }
  assert_true(edges > 50);
}

// Equal boxes on each other, turned alike: sides lie along each other to rounding, wherever they are said to cross. Points go with a
// box, not along its sides.
static void test_equal_boxes(void **unused) {
  (void)unused;
  uint64_t seed = 31;
  for (int trial = 0; trial < 100; trial++) {
    pbShape_r s1 = random_shape(&seed, pb_geomBox), s2 = s1;
    pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
    pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
    double axis[3], q[4], turn[9];
    m3_col(axis, s1.mat, trial % 3);
    v3_addscl(s2.pos, axis, 1.99 * s1.size[trial % 3]);
    quat_axisangle(q, axis, 1e-12 * random_unit(&seed));
    quat_to_mat(turn, q);
    m3_mul(s2.mat, turn, s1.mat);
    int count = pbPair_Collide_r(&s1, &s2, 0, contacts);
    assert_in_range(count, 4, 8);
    pbPair_Jacobian_r(&s1, &s2, 0, NULL, count, contacts, jac);
    for (int k = 0; k < 120 * count; k++) {
      double d = (&jac[k / 120].d[0][0])[k % 120];
      if (!(fabs(d) < 2)) fail_msg("%d contact %d row %d column %d: %g", trial, k / 120, k / 12 % 10, k % 12, d);
    }
  }
}

// ---- hostile --------------------------------------------------------------------------------------------------------
static bool finite_all(const double *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) return false;
  }
  return true;
}

static void test_degenerate_is_finite(void **unused) {
  (void)unused;
  uint64_t seed = 5;
  for (int i = 0; i < 6; i++) {
    for (int j = i ? i : 1; j < 6; j++) {
      for (int trial = 0; trial < 64; trial++) {
        pbShape_r s1 = random_shape(&seed, types[i]), s2 = random_shape(&seed, types[j]);
        pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
        pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
        if (trial & 1) v3_copy(s2.pos, s1.pos);
        if (trial & 2) m3_copy(s2.mat, s1.mat);
        if (trial & 4) v3_copy(s2.size, s1.size);
        if (trial & 8) s1.size[trial % 3] = 0;
        if (trial & 16) s2.size[(trial + 1) % 3] = 0;
        if (trial & 32) memcpy(s1.mat, (double[9]){1, 0, 0, 0, 1, 0, 0, 0, 1}, sizeof s1.mat);
        int count = pbPair_Collide_r(&s1, &s2, 0, contacts);
        assert_in_range(count, 0, PB_MAX_CONTACT_POINTS);
        pbPair_Jacobian_r(&s1, &s2, 0, NULL, count, contacts, jac);
        for (int k = 0; k < count; k++) {
          if (!finite_all(rows(&contacts[k]), 10) || !finite_all(&jac[k].d[0][0], 120))
            fail_msg("%s-%s %d: contact %d is not finite", names[types[i]], names[types[j]], trial, k);
          assert_float_equal(v3_norm(contacts[k].normal), 1, 1e-12);
        }
      }
    }
  }
}

static void test_bad_numbers_end(void **unused) {
  (void)unused;
  static const double bad[] = {NAN, INFINITY, -INFINITY, 1e308, -1e308, 1e-308, -1};
  uint64_t seed = 9;
  for (int i = 0; i < 6; i++) {
    for (int j = i ? i : 1; j < 6; j++) {
      for (int trial = 0; trial < 15 * 7 * 2; trial++) {
        pbShape_r s[2] = {random_shape(&seed, types[i]), random_shape(&seed, types[j])};
        pbContactPoint_r contacts[PB_MAX_CONTACT_POINTS];
        pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
        (&s[trial % 2].pos[0])[trial / 2 % 15] = bad[trial / 30];
        int count = pbPair_Collide_r(&s[0], &s[1], 0.01, contacts);
        assert_in_range(count, 0, PB_MAX_CONTACT_POINTS);
        pbPair_Jacobian_r(&s[0], &s[1], 0.01, NULL, count, contacts, jac);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_mujoco),
      cmocka_unit_test(test_convex_is_optimal),
      cmocka_unit_test(test_rests_on_several_contacts),
      cmocka_unit_test(test_jacobians),
      cmocka_unit_test(test_combined_directions),
      cmocka_unit_test(test_capsules_side_by_side),
      cmocka_unit_test(test_standing_cylinder),
      cmocka_unit_test(test_box_on_wider_box),
      cmocka_unit_test(test_boxes_apart),
      cmocka_unit_test(test_equal_boxes),
      cmocka_unit_test(test_degenerate_is_finite),
      cmocka_unit_test(test_bad_numbers_end),
  };
  return cmocka_run_group_tests_name("geometry", tests, NULL, NULL);
}
