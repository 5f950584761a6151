#include "probe_potential.h"

#include "contact/potential.h"
#include "eval/contact.h"
#include "eval/row.h"
#if !PB_IS_COMPLEX
#include "contact/row_adjoint.h"
#endif

static const double imp = 0.9, diag = 0.7;

// A model, an evaluation with one contact, and the row.
typedef struct setup {
  pbModel m;
  NUM(pbConstraints) w;
  NUM(pbContact) contact;
  NUM(pbRow) row;
  num impratio;
} setup;

static num input(const double *value, const double *direction, int i) {
  return num_make(value[i], direction ? PB_IMAG_STEP * direction[i] : 0);
}

// R of a pyramid's edges as row_numbers.c has it; D of an elliptic cone's tangents is D_0 friction_k^2 / mu^2.
static void set_contact(setup *s, const PotentialRow *c) {
  NUM(pbRow) *r = &s->row;
  const num *friction = s->contact.friction;
  r->mu = friction[0] / num_sqrt(s->impratio);
  if (c->pyramidal) {
    r->edge_R = 2 * r->mu * r->mu * ((1 - imp) / imp * diag * (1 + friction[0] * friction[0]));
    r->edge_D = 1 / r->edge_R;
    return;
  }
  for (int k = 1; k < r->dim; k++) r->D[k] = r->D[0] * friction[k - 1] * friction[k - 1] / (r->mu * r->mu);
}

static void begin(setup *s, const PotentialRow *c, const PotentialInputs *direction) {
  const PotentialInputs *d = direction;
  NUM(pbRow) *r = &s->row;
  memset(s, 0, sizeof *s);
  s->m.contact.method = pb_contactSoft;
  s->m.contact.cfm = s->m.contact.erp = -1;
  s->m.contact.kappa = c->kappa;
  s->m.cone = c->pyramidal ? pb_conePyramidal : pb_coneElliptic;
  s->impratio = input(&c->at.impratio, d ? &d->impratio : NULL, 0);
  s->w.m = &s->m;
  s->w.p.impratio = &s->impratio;
  s->w.contact = &s->contact;
  for (int k = 0; k < 5; k++) s->contact.friction[k] = input(c->at.friction, d ? d->friction : NULL, k);

  r->kind = (pbRowKind)c->kind;
  r->dim = c->dim;
  r->tendon = -1;
  r->imp = imp;
  for (int k = 0; k < r->dim; k++) {
    r->x[k] = input(c->at.x, d ? d->x : NULL, k);
    r->diag[k] = diag;
    r->D[k] = input(&c->at.D, d ? &d->D : NULL, 0);
    r->R[k] = 1 / r->D[k];
  }
  r->bound[0] = -input(&c->at.loss, d ? &d->loss : NULL, 0);
  r->bound[1] = input(&c->at.most, d ? &d->most : NULL, 0);
  if (c->kind == pb_rowContact && c->dim > 1) set_contact(s, c);
}

void NUM(probe_potential)(const PotentialRow *c, const PotentialInputs *direction, PotentialResult *out) {
  setup s;
  begin(&s, c, direction);
  out->value = re(NUM(pbRow_Evaluate)(&s.w, &s.row));
  out->zone = s.row.zone;
  for (int k = 0; k < c->dim; k++) {
    out->f[k] = re(s.row.f[k]);
    out->f_dot[k] = im(s.row.f[k]) / PB_IMAG_STEP;
  }
  for (int k = 0; k < c->dim * c->dim; k++) out->K[k] = out->zone ? re(s.row.K[k]) : 0;
}

#if !PB_IS_COMPLEX
void probe_potential_pull(const PotentialRow *c, const double y[6], PotentialInputs *gradient) {
  setup s;
  LANE(pbRowBar) bar;
  begin(&s, c, NULL);
  (void)NUM(pbRow_Evaluate)(&s.w, &s.row);
  memset(&bar, 0, sizeof bar);
  memcpy(bar.y, y, sizeof bar.y);
  bar.f = s.row.f;
  LANE(pbPotential_Pull)(&s.w, &s.row, &bar);
  LANE(pbPotential_PullSmoothCone)(&s.w, &s.row, &bar);

  // ln D = - ln diag + ...: the cotangent of diag says that of D.
  memset(gradient, 0, sizeof *gradient);
  memcpy(gradient->friction, bar.friction, sizeof bar.friction);
  gradient->impratio = bar.impratio;
  gradient->loss = -bar.bound[0];
  gradient->most = bar.bound[1];
  for (int k = 0; k < c->dim; k++) gradient->D -= bar.diag[k] * diag / c->at.D;
}
#endif
