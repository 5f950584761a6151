// compiler fusestatic: bodies without joints that nothing refers to become part of their parent. Forces do not change by it.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include <pullback/sensors.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "model/equality.h"

static void mark_name(const pbCompiler *c, bool *used, const char *name) {
  int b = pbCompile_Find(c, pb_refBody, name);
  if (b >= 0) used[b] = true;
}

static bool is_body(int ref_kind) { return ref_kind == pb_refBody || ref_kind == pb_refXbody; }

// Force and torque sensors measure the interaction between the body of their site and its parent, so it stays a body.
static void mark_sensor(const pbCompiler *c, bool *used, const pbSensorDef *d) {
  if (is_body(d->objtype)) mark_name(c, used, d->objname);
  if (is_body(d->reftype)) mark_name(c, used, d->refname);

  if (d->type != pb_sensForce && d->type != pb_sensTorque) return;
  int site = pbCompile_Find(c, pb_refSite, d->objname);
  if (site >= 0) used[c->sites[site].body] = true;
}

// Bodies that something refers to by name.
static void mark_used(const pbCompiler *c, bool *used) {
  const pbSpec *s = c->spec;

  // Targets of cameras and lights.
  for (int i = 0; i < s->ncamera; i++) mark_name(c, used, s->cameras[i].target);
  for (int i = 0; i < s->nlight; i++) mark_name(c, used, s->lights[i].target);

  for (int i = 0; i < s->nexclude; i++) {
    mark_name(c, used, s->excludes[i].body1);
    mark_name(c, used, s->excludes[i].body2);
  }

  // Connects and welds refer to bodies, unless they refer to sites.
  for (int i = 0; i < s->nequality; i++) {
    const pbEqualityDef *e = &s->equalities[i];
    if (!pbEquality_HasEnds(e->type) || e->sites) continue;
    mark_name(c, used, e->name1);
    mark_name(c, used, e->name2);
  }

  // Objects of sensors and of tuples.
  for (int i = 0; i < s->nsensor; i++) mark_sensor(c, used, &s->sensors[i]);
  for (int i = 0; i < s->ntuple; i++) {
    for (int k = 0; k < s->tuples[i].count; k++) {
      if (is_body(s->tuples[i].entries[k].objtype)) mark_name(c, used, s->tuples[i].entries[k].objname);
    }
  }
}

// Mass, center and inertia of two bodies as one, in the parent's frame.
static const char *merge_inertia(pbBodyWork *p, const pbBodyWork *b) {
  double pos[3], quat[4], center[3], total[6] = {0}, r[3];
  memcpy(pos, b->ipos, sizeof pos);
  memcpy(quat, b->iquat, sizeof quat);
  pbPose_Compose(b->pos, b->quat, pos, quat);

  // Common center of mass.
  double mass = p->mass + b->mass;
  PB_ASSERT(mass > 0);
  for (int k = 0; k < 3; k++) center[k] = (p->mass * p->ipos[k] + b->mass * pos[k]) / mass;

  // Parallel axis theorem for both.
  v3_sub(r, p->ipos, center);
  pbPose_AddInertia(total, p->mass, p->inertia, p->iquat, r);
  v3_sub(r, pos, center);
  pbPose_AddInertia(total, b->mass, b->inertia, quat, r);

  p->mass = mass;
  memcpy(p->ipos, center, sizeof center);
  return pbPose_Principal(total, p->iquat, p->inertia);
}

// Appends a chain of body b to that of p.
#define MOVE(works, chain)                                                               \
  do {                                                                                   \
    for (int i = b->chain.head; i >= 0; i = c->works[i].next) c->works[i].body = parent; \
    if (b->chain.head < 0) break;                                                        \
    if (p->chain.head < 0) {                                                             \
      p->chain = b->chain;                                                               \
    } else {                                                                             \
      c->works[p->chain.tail].next = b->chain.head;                                      \
      p->chain.tail = b->chain.tail;                                                     \
    }                                                                                    \
  } while (0)

// Everything in body b goes to its parent; poses are composed first.
static pbStatus fuse_body(pbCompiler *c, int index) {
  pbBodyWork *b = &c->bodies[index];
  PB_ASSERT(b->id >= 0 && b->parent >= 0 && c->bodies[b->parent].id >= 0);
  pbBodyWork *p = &c->bodies[b->parent];
  int parent = b->parent;

  // The world needs no inertia, and with inertiafromgeom it is computed from all geoms once they are together.
  if (parent != 0 && b->mass >= 1e-15 && SETTINGS(b->def)->inertiafromgeom != pb_true) {
    const char *wrong = merge_inertia(p, b);
    if (wrong) return PB_AT(c, b->def, "body", "%s, when it is fused with its parent", wrong);
    p->has_ipos = true;
    p->stated = p->stated || b->stated || p->adjusted || b->adjusted;
  }

  p->absorbed = true;

  // Children move up.
  for (int i = b->child; i >= 0; i = c->bodies[i].sibling) {
    pbPose_Compose(b->pos, b->quat, c->bodies[i].pos, c->bodies[i].quat);
    c->bodies[i].parent = parent;
  }

  // The parent, which has b at least, takes the children at the end of its list. The order of bodies stays that of c->order.
  if (b->child >= 0) {
    c->bodies[p->last_child].sibling = b->child;
    p->last_child = b->last_child;
  }

  // Items move up, at the end of the parent's lists.
  pbCompile_ComposeItems(c, b, b->pos, b->quat);
  MOVE(geoms, geoms);
  MOVE(sites, sites);
  MOVE(cameras, cameras);
  MOVE(lights, lights);

  b->id = -1;
  return pb_ok;
}

// Fusing must not change any force: gravity compensation and drag are computed per body.
static bool must_stay(const pbCompiler *c, const pbBodyWork *b) {
  if (b->parent == 0) return false;  // no force acts on the world
  const pbBodyWork *p = &c->bodies[b->parent];

  // Inertias that are kept as given (inertiarule): what no body has cannot be put together.
  bool alone = b->mass < 0 || p->mass < 0 || (b->mass == 0 && fmax(fabs(b->inertia[0]), fabs(b->inertia[2])) > 0);
  bool kept = c->spec->compiler.inertiarule == pb_inertiaKeep || b->def->inertia_kept || p->def->inertia_kept;
  if (alone && kept) return true;

  bool fluid = c->spec->option.density != 0 || c->spec->option.viscosity != 0;
  if (b->mass > 0 && (fluid || b->def->gravcomp != p->def->gravcomp)) return true;
  if (SETTINGS(p->def)->inertiafromgeom == pb_true && (b->adjusted || p->adjusted)) return true;

  if (!fluid) return false;
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    if (c->geoms[i].def->fluid_ellipsoid) return true;
  }
  return false;
}

pbStatus pbCompile_Fuse(pbCompiler *c) {
  bool *used = pbCompile_Take(c, (size_t)c->spec->nbody, sizeof *used);
  if (!used) return pb_no_memory;
  mark_used(c, used);

  // Depth first: a fused parent has handed its children on already.
  for (int k = 1; k < c->norder; k++) {
    int i = c->order[k];
    const pbBodyWork *b = &c->bodies[i];
    if (b->joints.head >= 0 || b->def->mocap || !b->def->fuse || used[i] || must_stay(c, b)) continue;
    PB_TRY(fuse_body(c, i));
  }

  // Inertia that came from geoms is computed again from all of them.
  for (int k = 1; k < c->norder; k++) {
    pbBodyWork *b = &c->bodies[c->order[k]];
    int rule = SETTINGS(b->def)->inertiafromgeom;

    if (b->id < 0 || !b->absorbed) continue;
    if (rule != pb_true && (rule != pb_auto || b->stated)) continue;
    PB_TRY(pbCompile_InertiaOfGeoms(c, b));
    PB_TRY(pbCompile_CheckInertia(c, b));
  }
  return pb_ok;
}
