// Moments of loads on bodies, over all dofs: what transmissions of sites, slider-cranks and adhesion share.
#ifndef PB_LOAD_MOMENT_H
#define PB_LOAD_MOMENT_H

#include "eval/mechanism.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// A force at a point of a body, and a torque.
typedef struct pbPointLoad {
  int body;
  const num *point;
  num force[3], torque[3];
} pbPointLoad;

// dense += sign load . velocity of the body, over dofs after `stop`.
static inline void add_load_moment(const NUM(pbMechanism) *w, const pbPointLoad *load, double sign, int stop, num *dense) {
  num d[3], wrench[6] = {0};

  body_offset(w, load->body, load->point, d);
  PB_ADDWRENCH(wrench, 1, d, load->force);
  v3_addto(wrench, load->torque);
  int i = w->t->body_dofend[load->body];
  for (; i > stop; i = w->m->dof_parentid[i]) dense[i] += sign * PB_DOT6(w->S + 6 * i, wrench);
}

static inline void add_site_moment(const NUM(pbMechanism) *w, int site, const num force[3], const num torque[3], double sign,
                                   int stop, num *dense) {
  pbPointLoad load = {.body = w->m->site_bodyid[site], .point = w->site_xpos + 3 * site};
  v3_copy(load.force, force);
  v3_copy(load.torque, torque);
  add_load_moment(w, &load, sign, stop, dense);
}

#endif
