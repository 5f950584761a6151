// Relations between elements of the tree: contact pairs, excluded pairs, equalities, tendons.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "model/joint.h"

#define COPY(field, id, n, values) memcpy(m->field + (n) * (size_t)(id), values, (n) * sizeof(double))

// ---- contact pairs ------------------------------------------------------------------------------------------------
// Ids of two bodies in one integer, the first in the upper half, by which both lists are sorted.
static int signature_of(int body1, int body2) { return (int)(((unsigned)body1 << 16) + (unsigned)body2); }

static int by_signature(const void *a, const void *b) {
  const pbPairWork *p = a, *q = b;
  if (p->signature != q->signature) return p->signature < q->signature ? -1 : 1;
  return p->index < q->index ? -1 : 1;  // otherwise in the order of the spec
}

static int exclude_by_signature(const void *a, const void *b) {
  const pbExcludeWork *p = a, *q = b;
  if (p->signature != q->signature) return p->signature < q->signature ? -1 : 1;
  return p->index < q->index ? -1 : 1;
}

static pbStatus resolve_pair(pbCompiler *c, pbPairWork *p) {
  const pbPairDef *d = p->def;
  if (d->condim != 1 && d->condim != 3 && d->condim != 4 && d->condim != 6)
    return PB_AT(c, d, "pair", "expected condim 1, 3, 4 or 6, found %d", d->condim);

  PB_TRY(pbCompile_Resolve(c, pb_refGeom, d->geom1, &d->place, "pair", d->name, &p->geom1));
  PB_TRY(pbCompile_Resolve(c, pb_refGeom, d->geom2, &d->place, "pair", d->name, &p->geom2));

  // The geom of the body with the smaller id comes first.
  int b1 = c->bodies[c->geoms[p->geom1].body].id;
  int b2 = c->bodies[c->geoms[p->geom2].body].id;
  if (b1 > b2) {
    int g = p->geom1;
    int b = b1;
    p->geom1 = p->geom2;
    p->geom2 = g;
    b1 = b2;
    b2 = b;
  }

  // Geoms of a pair may touch whatever their masks say, so they stay.
  p->signature = signature_of(b1, b2);
  c->geoms[p->geom1].needed = c->geoms[p->geom2].needed = true;
  return pb_ok;
}

static pbStatus resolve_exclude(pbCompiler *c, pbExcludeWork *e) {
  const pbExcludeDef *d = e->def;
  int b1, b2;
  PB_TRY(pbCompile_Resolve(c, pb_refBody, d->body1, &d->place, "exclude", d->name, &b1));
  PB_TRY(pbCompile_Resolve(c, pb_refBody, d->body2, &d->place, "exclude", d->name, &b2));

  // Excludes have no order of their own: the smaller id comes first.
  b1 = c->bodies[b1].id;
  b2 = c->bodies[b2].id;
  e->signature = b1 < b2 ? signature_of(b1, b2) : signature_of(b2, b1);
  return pb_ok;
}

pbStatus pbCompile_Pairs(pbCompiler *c) {
  const pbSpec *s = c->spec;
  for (int i = 0; i < s->npair; i++) {
    c->pairs[i] = (pbPairWork){.def = &s->pairs[i], .index = i};
    PB_TRY(resolve_pair(c, &c->pairs[i]));
  }

  for (int i = 0; i < s->nexclude; i++) {
    c->excludes[i] = (pbExcludeWork){.def = &s->excludes[i], .index = i};
    PB_TRY(resolve_exclude(c, &c->excludes[i]));
  }

  qsort(c->pairs, (size_t)s->npair, sizeof *c->pairs, by_signature);
  qsort(c->excludes, (size_t)s->nexclude, sizeof *c->excludes, exclude_by_signature);
  return pb_ok;
}

pbStatus pbCompile_StorePairs(pbCompiler *c) {
  pbModel *m = c->m;
  for (int i = 0; i < m->npair; i++) {
    const pbPairWork *p = &c->pairs[i];
    const pbPairDef *d = p->def;
    m->pair_dim[i] = d->condim;
    m->pair_signature[i] = p->signature;
    m->pair_geom1[i] = c->geoms[p->geom1].id;
    m->pair_geom2[i] = c->geoms[p->geom2].id;
    PB_ASSERT(m->pair_geom1[i] >= 0 && m->pair_geom2[i] >= 0);
    PB_ASSERT(i == 0 || m->pair_signature[i - 1] <= m->pair_signature[i]);

    COPY(pair_solref, i, 2, d->solref);
    COPY(pair_solreffriction, i, 2, d->solreffriction);
    COPY(pair_solimp, i, 5, d->solimp);
    COPY(pair_friction, i, 5, d->friction);

    m->pair_margin[i] = d->margin;
    m->pair_gap[i] = d->gap;
  }

  for (int i = 0; i < m->nexclude; i++) m->exclude_signature[i] = c->excludes[i].signature;
  return pb_ok;
}

// ---- equalities ---------------------------------------------------------------------------------------------------
static int equality_refers_to(const pbEqualityDef *d) {
  pbEqualityOf of = pbEquality_Row(d->type)->of;
  if (of == pb_ofJoints) return pb_refJoint;
  if (of == pb_ofTendons) return pb_refTendon;
  return d->sites ? pb_refSite : pb_refBody;
}

static bool is_scalar(const pbCompiler *c, int joint) { return pbJoint_IsScalar(c->spec->joints[joint].type); }

// Ids of the two objects in the model; -1 where there is no second one.
static pbStatus resolve_equality(pbCompiler *c, const pbEqualityDef *d, int *id1, int *id2) {
  const char *word = pbEquality_Row(d->type)->word;
  int kind = equality_refers_to(d);
  int a, b = -1;
  bool second = d->name2 && *d->name2;

  // The second object may be left out, except that a site needs a partner.
  PB_TRY(pbCompile_Resolve(c, kind, d->name1, &d->place, word, d->name, &a));
  if (second || kind == pb_refSite) PB_TRY(pbCompile_Resolve(c, kind, d->name2, &d->place, word, d->name, &b));

  // A connect or weld to nothing is to the world.
  if (kind == pb_refBody && !second) b = 0;

  // Two different objects, and of joints only those whose position is one number.
  if (a == b) return PB_AT(c, d, word, "'%s' cannot be tied to itself", d->name1);
  if (kind == pb_refJoint && (!is_scalar(c, a) || (second && !is_scalar(c, b))))
    return PB_AT(c, d, word, "only hinge and slide joints can be coupled");

  *id1 = pbCompile_Id(c, kind, a);
  *id2 = b < 0 ? -1 : pbCompile_Id(c, kind, b);
  PB_ASSERT(*id1 >= 0 && (b < 0 || *id2 >= 0));  // what is referred to is never fused or discarded
  return pb_ok;
}

// eq_data as in MuJoCo 4.0 (model/equality_data.h), as far as it is given; setconst.c derives the rest.
static void equality_data(const pbEqualityDef *d, double data[pb_eqDataSize]) {
  pbEqualityOf of = pbEquality_Row(d->type)->of;
  bool weld = of == pb_ofPoses;
  if (of == pb_ofPoints && d->sites) return;

  // Other entries that a type does not use hold MuJoCo's defaults.
  data[pb_weldTorquescale] = weld ? d->torquescale : 1;
  if (of == pb_ofJoints || of == pb_ofTendons) {
    memcpy(data + pb_couplingPolycoef, d->polycoef, sizeof d->polycoef);
  } else if (d->sites) {
    data[1] = 1;
  } else {
    memcpy(data, d->anchor, sizeof d->anchor);
  }

  // A relative pose with a quaternion of zero is not given: it follows from qpos0.
  if (!weld || d->sites) return;
  memcpy(data + pb_weldAnchor + 3, d->relpose, sizeof d->relpose);
  data[pb_weldFollows] = pbPose_Normalize(data + pb_weldRelquat, 4) == 0;
}

pbStatus pbCompile_Equalities(pbCompiler *c) {
  pbModel *m = c->m;
  for (int i = 0; i < m->neq; i++) {
    const pbEqualityDef *d = &c->spec->equalities[i];
    if (!pbEquality_Row(d->type)) return PB_AT(c, d, "equality", "its type %d is not known", d->type);

    PB_TRY(resolve_equality(c, d, &m->eq_obj1id[i], &m->eq_obj2id[i]));

    m->eq_type[i] = d->type;
    m->eq_active0[i] = d->active;
    m->eq_objtype[i] = pbEquality_HasEnds(d->type) ? equality_refers_to(d) : pb_refNone;
    COPY(eq_solref, i, 2, d->solref);
    COPY(eq_solimp, i, 5, d->solimp);
    equality_data(d, m->eq_data + pbEquality_Data(i));
  }
  return pb_ok;
}

// ---- tendons ------------------------------------------------------------------------------------------------------
static pbStatus fail_at_station(pbCompiler *c, const pbTendonDef *d, int i, const char *reason) {
  return pbSpec_Fail(c->spec, pb_bad_input, d->path[i].place.line ? &d->path[i].place : &d->place,
                     d->spatial ? "spatial" : "fixed", d->name, "station %d: %s", i, reason);
}

// Type of a station; both ends of a path are like pulleys.
static int wrap_at(const pbTendonDef *d, int i) { return i < 0 || i >= d->path_count ? pb_wrapPulley : d->path[i].type; }

// A path is a chain of sites; a pulley ends a branch and begins the next.
static pbStatus check_station(pbCompiler *c, const pbTendonDef *d, int i) {
  const pbWrap *w = &d->path[i];
  if (!d->spatial) return w->type == pb_wrapJoint ? pb_ok : fail_at_station(c, d, i, "a fixed tendon can only hold joints");

  // A pulley begins a branch, which must have a segment.
  if (w->type == pb_wrapPulley) {
    if (i > 0 && d->path[i - 1].type == pb_wrapPulley) return fail_at_station(c, d, i, "a pulley cannot follow a pulley");
    if (i == d->path_count - 1) return fail_at_station(c, d, i, "a path cannot end with a pulley");
    return w->value > 0 ? pb_ok : fail_at_station(c, d, i, "the divisor of a pulley must be positive");
  }

  // A site must have a segment on one side at least, and a segment a direction.
  // A geom is passed on the way from one site to the next.
  if (w->type >= pb_wrapSphere) {
    if (wrap_at(d, i - 1) != pb_wrapSite || wrap_at(d, i + 1) != pb_wrapSite)
      return fail_at_station(c, d, i, "a geom needs a site before and behind it");
    if (d->armature > 0) return fail_at_station(c, d, i, "a tendon that wraps around a geom cannot have armature");
    return pb_ok;
  }

  if (w->type != pb_wrapSite) return fail_at_station(c, d, i, "a spatial tendon can only pass sites, geoms and pulleys");
  if (wrap_at(d, i - 1) == pb_wrapPulley && wrap_at(d, i + 1) == pb_wrapPulley)
    return fail_at_station(c, d, i, "a site needs a neighbor that is not a pulley");
  if (wrap_at(d, i + 1) == pb_wrapSite && !strcmp(w->target, d->path[i + 1].target))
    return fail_at_station(c, d, i, "the site is repeated");
  return pb_ok;
}

static int kind_of_station(const pbWrap *w) {
  if (w->type == pb_wrapJoint) return pb_refJoint;
  return w->type >= pb_wrapSphere ? pb_refGeom : pb_refSite;
}

// A fixed tendon is a weighted sum of joint positions: scalar joints, each of them once.
static pbStatus check_joint(pbCompiler *c, const pbTendonDef *d, int i, int index, const int *before) {
  if (!is_scalar(c, index)) return fail_at_station(c, d, i, "only hinge and slide joints can be in a fixed tendon");

  for (int k = 0; k < i; k++) {
    if (before[k] == c->joints[index].id) return fail_at_station(c, d, i, "the joint is repeated");
  }

  return pb_ok;
}

// The geom's shape, and the site on whose side the path goes.
static pbStatus store_obstacle(pbCompiler *c, const pbTendonDef *d, int i, int index, int station) {
  const pbWrap *w = &d->path[i];
  int shape = c->spec->geoms[index].type, side = -1;

  // Other shapes have no closed form.
  if (shape != pb_geomSphere && shape != pb_geomCylinder)
    return fail_at_station(c, d, i, "a tendon can only wrap around spheres and cylinders");

  if (w->sidesite && *w->sidesite) {
    PB_TRY(pbCompile_Resolve(c, pb_refSite, w->sidesite, w->place.line ? &w->place : &d->place, "spatial", d->name, &side));
    side = pbCompile_Id(c, pb_refSite, side);
  }

  // MuJoCo keeps the site in wrap_prm, which has no slope.
  c->m->wrap_type[station] = shape == pb_geomSphere ? pb_wrapSphere : pb_wrapCylinder;
  c->m->wrap_side[station] = side;
  c->m->wrap_prm[station] = side;
  return pb_ok;
}

static pbStatus store_path(pbCompiler *c, const pbTendonDef *d, int adr) {
  pbModel *m = c->m;
  const char *word = d->spatial ? "spatial" : "fixed";

  for (int i = 0; i < d->path_count; i++) {
    const pbWrap *w = &d->path[i];
    int ref = kind_of_station(w);
    int index = -1;
    if (w->type != pb_wrapPulley)
      PB_TRY(pbCompile_Resolve(c, ref, w->target, w->place.line ? &w->place : &d->place, word, d->name, &index));
    PB_TRY(check_station(c, d, i));
    if (w->type == pb_wrapJoint) PB_TRY(check_joint(c, d, i, index, m->wrap_objid + adr));

    // wrap_prm: the coefficient of a joint, the divisor of a pulley.
    m->wrap_type[adr + i] = w->type;
    m->wrap_objid[adr + i] = index < 0 ? -1 : pbCompile_Id(c, ref, index);
    m->wrap_prm[adr + i] = w->type == pb_wrapSite ? 0 : w->value;
    m->wrap_side[adr + i] = -1;
    if (ref == pb_refGeom) PB_TRY(store_obstacle(c, d, i, index, adr + i));
  }
  return pb_ok;
}

// Geoms that tendons wrap around stay, even where the compiler discards visual-only ones.
void pbCompile_MarkObstacles(pbCompiler *c) {
  const pbSpec *s = c->spec;
  for (int t = 0; t < s->ntendon; t++) {
    for (int i = 0; i < s->tendons[t].path_count; i++) {
      // Names are resolved, and missing ones refused, when the path is stored.
      const pbWrap *w = &s->tendons[t].path[i];
      int g = w->type >= pb_wrapSphere ? pbCompile_Find(c, pb_refGeom, w->target) : -1;
      if (g >= 0) c->geoms[g].needed = true;
    }
  }
}

static pbStatus check_tendon(pbCompiler *c, const pbTendonDef *d, bool *limited, bool *actfrclimited) {
  const char *word = d->spatial ? "spatial" : "fixed";
  if (!d->path_count) return PB_AT(c, d, word, "the path is empty");
  if (d->spatial && d->path_count < 2) return PB_AT(c, d, word, "a spatial path needs at least two stations");
  if (d->spatial && !(d->width > 0)) return PB_AT(c, d, word, "width must be positive");
  if (d->armature < 0) return PB_AT(c, d, word, "armature cannot be negative");

  // Limits: of the length, and of the force of actuators, which must be able to rest.
  PB_TRY(pbCompile_Limited(c, &d->place, word, d->name, "", d->limited, d->range, limited));
  if (*limited && d->range[0] >= d->range[1]) return PB_AT(c, d, word, "range[0] must be smaller than range[1]");

  PB_TRY(pbCompile_Limited(c, &d->place, word, d->name, "actuatorfrc", d->actfrclimited, d->actfrcrange, actfrclimited));
  if (*actfrclimited && (d->actfrcrange[0] >= d->actfrcrange[1] || d->actfrcrange[0] > 0 || d->actfrcrange[1] < 0))
    return PB_AT(c, d, word, "actuatorfrcrange must be increasing and hold zero");

  // -1 -1, the length at rest, passes.
  if (d->springlength[0] > d->springlength[1])
    return PB_AT(c, d, word, "springlength[0] must not be larger than springlength[1]");
  return pb_ok;
}

static void store_tendon(pbModel *m, const pbTendonDef *d, int t) {
  COPY(tendon_solref_lim, t, 2, d->solref_limit);
  COPY(tendon_solimp_lim, t, 5, d->solimp_limit);
  COPY(tendon_solref_fri, t, 2, d->solref_friction);
  COPY(tendon_solimp_fri, t, 5, d->solimp_friction);
  COPY(tendon_range, t, 2, d->range);
  COPY(tendon_actfrcrange, t, 2, d->actfrcrange);
  COPY(tendon_stiffnesspoly, t, 2, d->stiffness + 1);
  COPY(tendon_dampingpoly, t, 2, d->damping + 1);
  COPY(tendon_lengthspring, t, 2, d->springlength);
  COPY(tendon_rgba, t, 4, d->rgba);

  // Linear coefficients have fields of their own, apart from the polynomials.
  m->tendon_group[t] = d->group;
  m->tendon_margin[t] = d->margin;
  m->tendon_stiffness[t] = d->stiffness[0];
  m->tendon_damping[t] = d->damping[0];
  m->tendon_armature[t] = d->armature;
  m->tendon_frictionloss[t] = d->frictionloss;
  m->tendon_width[t] = d->width;

  pbCompile_User(m->tendon_user + (size_t)m->nuser_tendon * (size_t)t, m->nuser_tendon, d->user);
}

pbStatus pbCompile_Tendons(pbCompiler *c) {
  pbModel *m = c->m;
  int adr = 0;
  for (int t = 0; t < m->ntendon; t++) {
    const pbTendonDef *d = &c->spec->tendons[t];
    bool limited, actfrclimited;

    // Checked first: the path needs stations.

    PB_TRY(check_tendon(c, d, &limited, &actfrclimited));

    m->tendon_limited[t] = limited;
    m->tendon_actfrclimited[t] = actfrclimited;
    m->tendon_adr[t] = adr;
    m->tendon_num[t] = d->path_count;

    PB_TRY(store_path(c, d, adr));
    store_tendon(m, d, t);
    adr += d->path_count;
  }
  PB_ASSERT(adr == m->nwrap);
  return pb_ok;
}
