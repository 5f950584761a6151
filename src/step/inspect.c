// Quantities of the last evaluation by MuJoCo's name.
// Tests: tests/unit/test_hard.c, tests/unit/test_room.c.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/own.h"
#include "base/assert.h"
#include "base/context.h"
#include "contact/contact.h"
#include "contact/row.h"
#include "eval/stages.h"
#include "geometry/distance.h"
#include "model/sensor.h"
#include "multibody/distance_sensor.h"
#include "multibody/ray_sensor.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"
#include "solve/newton.h"
#include "step/scratch.h"

// Dense copies of what the evaluation keeps sparse, in MuJoCo's layout. Rows are counted as MuJoCo's efc rows.
struct pbGathered {
  int ncon, nefc, max_efc, max_con;
  double *M, *cvel, *com;
  double *contact_dist, *contact_pos, *contact_frame, *contact_geom, *contact_force;
  double *wrap_turn, *wrap_points;
  double *sensor_look;
  double *J, *pos, *margin, *aref, *R, *force, *diag;
  void *block;
};

// Every piece is of doubles, or of pointers' size and less aligned.
#define TAKE(field, count) g->field = pbArena_Take(arena, (size_t)(count), sizeof *g->field)
static void lay_out_copies(pbArena *arena, struct pbGathered *g, const pbWork_r *w) {
  const pbModel *m = w->m;
  g->max_con = w->max_con;
  g->max_efc = 10 * w->max_con + 6 * m->neq + w->t->max_blocks;
  TAKE(M, m->nv * m->nv);
  TAKE(cvel, 6 * m->nbody);
  TAKE(com, 3 * m->nbody);

  TAKE(contact_dist, w->max_con);
  TAKE(contact_pos, 3 * w->max_con);
  TAKE(contact_frame, 9 * w->max_con);
  TAKE(contact_geom, 2 * w->max_con);
  TAKE(contact_force, 6 * w->max_con);

  TAKE(wrap_turn, m->nwrap);
  TAKE(wrap_points, 6 * m->nwrap);
  TAKE(sensor_look, 3 * m->nsensor);
  TAKE(pos, g->max_efc);
  TAKE(margin, g->max_efc);
  TAKE(aref, g->max_efc);
  TAKE(R, g->max_efc);
  TAKE(force, g->max_efc);
  TAKE(diag, g->max_efc);
}
#undef TAKE

pbStatus pbScratch_InspectCreate(pbScratch *s) {
  s->gathered = pbContext_Alloc(s->ctx, sizeof *s->gathered);
  return s->gathered ? pb_ok : pb_no_memory;
}

// Room for copies of what the work has room for.
static pbStatus make_copies(pbScratch *s) {
  struct pbGathered *g = s->gathered, probe;
  pbArena measure = pbArena_Measure();
  if (g->block && g->max_con >= s->w.max_con) return pb_ok;
  lay_out_copies(&measure, &probe, &s->w);

  size_t needed = pbArena_Needed(&measure);
  pbContext_Free(s->ctx, g->block);
  pbContext_Free(s->ctx, g->J);
  *g = (struct pbGathered){.block = needed == SIZE_MAX ? NULL : pbContext_Alloc(s->ctx, needed)};
  if (!g->block) return pb_no_memory;

  pbArena arena = pbArena_Over(g->block, needed);
  lay_out_copies(&arena, g, &s->w);
  PB_ASSERT(!arena.failed && arena.used == measure.used);
  return pb_ok;
}

void pbScratch_InspectDestroy(pbScratch *s) {
  if (!s->gathered) return;
  pbContext_Free(s->ctx, s->gathered->J);
  pbContext_Free(s->ctx, s->gathered->block);
  pbContext_Free(s->ctx, s->gathered);
}

static void dense_mass(const pbWork_r *w, double *M) {
  const pbTreePattern *tree = &w->t->M;
  memset(M, 0, (size_t)tree->n * (size_t)tree->n * sizeof(double));

  // Row i of the sparse factor's pattern holds the dofs that move dof i, itself last.
  for (int i = 0; i < tree->n; i++) {
    for (int a = 0; a <= tree->depth[i]; a++) {
      int j = tree->chain[tree->adr[i] + a];
      M[i * tree->n + j] = M[j * tree->n + i] = w->M[tree->adr[i] + a];
    }
  }
}

// Velocities about the origin of the world.
static void world_velocity(const pbWork_r *w, double *cvel) {
  for (int b = 0; b < w->m->nbody; b++) {
    double d[3], origin[3] = {0, 0, 0};
    const double *V = w->V + 6 * b;

    body_offset(&w->mechanism, b, origin, d);
    memcpy(cvel + 6 * b, V, 3 * sizeof(double));
    PB_POINTVEL(cvel + 6 * b + 3, V, d);
  }
}

// Centers of mass of subtrees; an empty one is at its body.
static void subtree_centers(const pbWork_r *w, double *com) {
  const pbModel *m = w->m;
  for (int b = 0; b < m->nbody; b++) {
    for (int k = 0; k < 3; k++) com[3 * b + k] = w->p.body_mass[b] * w->xipos[3 * b + k];
  }

  for (int b = m->nbody - 1; b > 0; b--) {
    for (int k = 0; k < 3; k++) com[3 * m->body_parentid[b] + k] += com[3 * b + k];
  }

  for (int b = 0; b < m->nbody; b++) {
    double mass = w->p.body_subtreemass[b];
    for (int k = 0; k < 3; k++) com[3 * b + k] = mass < 1e-15 ? w->xipos[3 * b + k] : com[3 * b + k] / mass;
  }
}

// One MuJoCo row: weights of the basis rows, what it reports. MuJoCo's diagApprox follows from R = (1 - d) / d diagApprox.
typedef struct efc_row {
  double weight[6], pos, R, force;
} efc_row;

static void add_efc_row(struct pbGathered *g, const pbWork_r *w, const pbRow_r *r, const efc_row *row) {
  int e = g->nefc++;
  double aref = 0;
  PB_ASSERT(e < g->max_efc);
  for (int k = 0; k < r->dim; k++) {
    aref += row->weight[k] * r->aref[k];
    if (!g->J) continue;
    for (int i = 0; i < r->n; i++) {
      int dof = w->row_dofs[r->dofs + i];
      g->J[e * w->m->nv + dof] += row->weight[k] * w->row_J[r->J + k * r->n + i];
    }
  }

  g->pos[e] = row->pos;
  g->aref[e] = aref;
  g->R[e] = row->R;
  g->force[e] = row->force;
  g->margin[e] = row->pos == 0 && r->dim > 1 ? 0 : r->margin;
  g->diag[e] = row->R * r->imp / (1 - r->imp);
}

// A pyramidal contact is reported by its edges, normal +- mu tangent; everything else by its basis rows.
static void add_edges(struct pbGathered *g, const pbWork_r *w, const pbRow_r *r) {
  for (int k = 1; k < r->dim; k++) {
    for (int s = 0; s < 2; s++) {
      double mu = (s ? -1 : 1) * w->contact[r->contact].friction[k - 1], x = r->x[0] + mu * r->x[k];
      efc_row row = {.weight = {1}, .pos = r->pos[0], .R = r->edge_R, .force = x < 0 ? -r->edge_D * x : 0};

      row.weight[k] = mu;
      add_efc_row(g, w, r, &row);
    }
  }
}

static void add_efc_rows(struct pbGathered *g, const pbWork_r *w, const pbRow_r *r) {
  if (pb_pyramidal(w->m, r)) {
    add_edges(g, w, r);
    return;
  }
  for (int k = 0; k < r->dim; k++) {
    efc_row row = {.pos = r->pos[k], .R = r->R[k], .force = r->f[k]};
    row.weight[k] = 1;
    add_efc_row(g, w, r, &row);
  }
}

static void copy_contacts(struct pbGathered *g, const pbWork_r *w) {
  g->ncon = w->ncon;
  for (int i = 0; i < w->ncon; i++) {
    const pbContact_r *c = w->contact + i;
    g->contact_dist[i] = c->dist;
    memcpy(g->contact_pos + 3 * i, c->pos, sizeof c->pos);
    memcpy(g->contact_frame + 9 * i, c->frame, sizeof c->frame);

    g->contact_geom[2 * i] = c->geom1;
    g->contact_geom[2 * i + 1] = c->geom2;
  }
}

// In the frame of the contact: force (the normal first), then torque; zero where the contact makes no rows.
static void copy_forces(struct pbGathered *g, const pbWork_r *w) {
  if (w->ncon) memset(g->contact_force, 0, 6 * (size_t)w->ncon * sizeof(double));

  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    if (r->kind != pb_rowContact) continue;
    PB_ASSERT(r->dim <= 6 && r->contact >= 0 && r->contact < w->ncon);
    for (int i = 0; i < r->dim; i++) g->contact_force[6 * r->contact + i] = r->f[i];
  }
}

// Where a path comes to the geom that it goes around, and where it leaves it.
static void touching_points(const pbWork_r *w, const pbPiece *p, const pbWrapPath_r *path, double points[6]) {
  const double *center = w->geom_xpos + 3 * p->geom, *x0 = w->site_xpos + 3 * p->site[0];
  double low = 0;

  // Height along the axis; nothing is made of it on a sphere.
  for (int k = 0; k < 3; k++) low += (x0[k] - center[k]) * path->axis[2][k];

  for (int e = 0; e < 2; e++) {
    // A path rises evenly with its length across the axis.
    double gone = e ? path->flat - path->straight[1] : path->straight[0];
    double height = path->cylinder ? low + path->rise * gone / path->flat : 0;

    // On the circle, in the plane that the path lies in
    for (int k = 0; k < 3; k++) {
      double flat = path->n[e][0] * path->axis[0][k] + path->n[e][1] * path->axis[1][k];
      points[3 * e + k] = center[k] + path->radius * flat + height * path->axis[2][k];
    }
  }
}

// Angle by which each path goes around each geom, of either sense; zero: straight, infinite: it touches from inside.
static void turns_of_paths(struct pbGathered *g, const pbWork_r *w) {
  const pbModel *m = w->m;
  for (int i = 0; i < m->nwrap; i++) g->wrap_turn[i] = 0;
  for (int i = 0; i < 6 * m->nwrap; i++) g->wrap_points[i] = 0;
  for (int k = 0; k < m->ntendon; k++) {
    pbPiece p = pb_pathOf(m, k);
    while (pb_isSpatial(m, k) && pb_nextPiece(m, k, &p)) {
      const pbWrapPath_r *path = pbTendon_Around_r(&w->mechanism, &p);
      if (!path) continue;

      // The geom stands before the site that the next piece begins at.
      g->wrap_turn[p.next - 1] = path->inside ? (double)INFINITY : path->turn * fmax(path->arc, 1e-300);
      touching_points(w, &p, path, g->wrap_points + 6 * (p.next - 1));
    }
  }
}

// Of a camera the ray in the middle says what is met; what any of them meets changes the number.
static void look_of_rays(const pbWork_r *w, int sensor, double look[3]) {
  int count = pbRay_Count_r(w->m, sensor);
  double sum = 0;
  for (int i = 0; i < count; i++) {
    pbBeam_r beam;
    pbRayHit hit;
    pbRay_Beam_r(&w->mechanism, sensor, i, &beam);
    pbRay_Cast_r(&w->mechanism, &beam, &hit);
    if (i == count / 2) look[0] = hit.geom;
    double met = hit.geom < 0 ? -1 : 2. * hit.feature.id + hit.feature.leaves;
    sum = count == 1 ? met : fmod(31 * sum + 7 * hit.geom + met, 1e12 + 39);
  }
  look[2] = sum;
}

// What rays meet and between what distances are, -1: nothing; a number that changes with the part of the surface, or the
// features.
static void looks_of_sensors(struct pbGathered *g, const pbWork_r *w) {
  const pbModel *m = w->m;
  for (int i = 0; i < m->nsensor; i++) {
    double *look = g->sensor_look + 3 * i;
    look[0] = look[1] = look[2] = -1;
    if (m->disableflags & pb_disSensor) continue;

    pbSensorOf of = pbSensor_Row(m->sensor_type[i])->of;
    if (of == pb_ofRay) look_of_rays(w, i, look);
    if (of != pb_ofShapes) continue;

    // Of the first object, then of the second.
    pbNearest_r found;
    pbShape_r shape[2];
    pbDistance_Find_r(&w->mechanism, i, &found);
    if (found.geom[0] < 0) continue;
    for (int k = 0; k < 2; k++) geom_shape(&w->mechanism, found.geom[k], &shape[k]);
    look[0] = found.geom[found.flip];
    look[1] = found.geom[!found.flip];
    look[2] = pbPair_NearestFeature_r(&shape[0], &shape[1], found.point);
  }
}

pbStatus pbScratch_Gather(pbScratch *s) {
  const pbWork_r *w = &s->w;
  struct pbGathered *g = s->gathered;
  if (pbScratch_Stale(s, s->model)) return pb_ok;
  PB_TRY(make_copies(s));

  // Where M is singular there is no smooth acceleration to show.
  if (pbSolve_Smooth_r(&s->w) != pb_ok) memset(w->qacc_smooth, 0, (size_t)w->m->nv * sizeof(double));
  dense_mass(w, g->M);
  world_velocity(w, g->cvel);
  subtree_centers(w, g->com);
  copy_contacts(g, w);
  copy_forces(g, w);
  turns_of_paths(g, w);
  looks_of_sensors(g, w);

  // J is dense and of as many rows as there are now.
  int rows = 0;
  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    rows += pb_pyramidal(w->m, r) ? 2 * (r->dim - 1) : r->dim;
  }
  pbContext_Free(s->ctx, g->J);
  g->J = pbContext_Alloc(s->ctx, (size_t)(rows * w->m->nv + 1) * sizeof(double));
  g->nefc = 0;
  if (!g->J) return pb_no_memory;
  for (int k = 0; k < w->nrow; k++) add_efc_rows(g, w, w->row + k);
  return pb_ok;
}

typedef struct named_field {
  const char *name;
  const double *data;
  int rows, cols;
} named_field;

enum { most_fields = 64 };

// All of them, by MuJoCo's names and in the order of its mjData; returns their number.
static int list_fields(const pbScratch *s, named_field list[most_fields]) {
  const pbWork_r *w = &s->w;
  const pbModel *m = w->m;
  const struct pbGathered *g = s->gathered;
  const named_field fields[] = {
      // poses
      {"xpos", w->xpos, m->nbody, 3},
      {"xquat", w->xquat, m->nbody, 4},
      {"xmat", w->xmat, m->nbody, 9},
      {"xipos", w->xipos, m->nbody, 3},
      {"ximat", w->ximat, m->nbody, 9},
      {"xanchor", w->xanchor, m->njnt, 3},
      {"xaxis", w->xaxis, m->njnt, 3},
      {"geom_xpos", w->geom_xpos, m->ngeom, 3},
      {"geom_xmat", w->geom_xmat, m->ngeom, 9},
      {"site_xpos", w->site_xpos, m->nsite, 3},
      {"site_xmat", w->site_xmat, m->nsite, 9},

      // the mass matrix, forces and accelerations
      {"subtree_com", g->com, m->nbody, 3},
      {"cvel", g->cvel, m->nbody, 6},
      {"M", g->M, m->nv, m->nv},
      {"qfrc_bias", w->qfrc_bias, m->nv, 1},
      {"qfrc_passive", w->qfrc_passive, m->nv, 1},
      {"qfrc_actuator", w->qfrc_actuator, m->nv, 1},
      {"qfrc_smooth", w->qfrc_smooth, m->nv, 1},
      {"qacc_smooth", w->qacc_smooth, m->nv, 1},
      {"qacc", w->qacc, m->nv, 1},
      {"qfrc_constraint", w->qfrc_constraint, m->nv, 1},

      // tendons and actuators
      {"ten_length", w->ten_length, m->ntendon, 1},
      {"ten_velocity", w->ten_velocity, m->ntendon, 1},
      {"wrap_turn", g->wrap_turn, m->nwrap, 1},
      {"wrap_points", g->wrap_points, m->nwrap, 6},
      {"actuator_length", w->act_length, m->nu, 1},
      {"actuator_velocity", w->act_velocity, m->nu, 1},
      {"actuator_force", w->actuator_force, m->nu, 1},
      {"act_dot", w->act_dot, m->na, 1},

      // contacts and constraint rows, as many as were copied: there may be more by now
      {"contact_dist", g->contact_dist, g->ncon, 1},
      {"contact_pos", g->contact_pos, g->ncon, 3},
      {"contact_frame", g->contact_frame, g->ncon, 9},
      {"contact_geom", g->contact_geom, g->ncon, 2},
      {"contact_force", g->contact_force, g->ncon, 6},
      {"efc_J", g->J, g->nefc, m->nv},
      {"efc_pos", g->pos, g->nefc, 1},
      {"efc_margin", g->margin, g->nefc, 1},
      {"efc_aref", g->aref, g->nefc, 1},
      {"efc_R", g->R, g->nefc, 1},
      {"efc_force", g->force, g->nefc, 1},
      {"efc_diagApprox", g->diag, g->nefc, 1},
      {"sensordata", s->told ? s->told : w->sensordata, m->nsensordata, 1},
      {"sensor_look", g->sensor_look, m->nsensor, 3},
  };
  _Static_assert(sizeof fields <= most_fields * sizeof *list, "room for all");
  memcpy(list, fields, sizeof fields);
  return sizeof fields / sizeof *fields;
}

bool pbScratch_Field(const pbScratch *s, const char *name, const double **data, int *rows, int *cols) {
  named_field list[most_fields];
  if (pbScratch_Stale(s, s->model)) return false;
  // A step places those that it reads; before the first there are none.
  bool evaluated = s->w.p.timestep != NULL;
  if (evaluated && !strncmp(name, "site_", 5)) pbStage_AllSites_r(pb_own(&s->w));
  if (evaluated && !strncmp(name, "geom_", 5)) pbStage_AllGeoms_r(pb_own(&s->w));

  for (int i = 0, n = list_fields(s, list); i < n; i++) {
    if (strcmp(list[i].name, name)) continue;
    if (!list[i].data && list[i].rows * list[i].cols > 0) return false;
    *data = list[i].data;
    *rows = list[i].rows;
    *cols = list[i].cols;
    return true;
  }
  return false;
}
