// Contacts that have no derivative of every direction, in words.
// Tests: tests/unit/test_ties.c, tests/unit/test_rollout.c, tests/python/test_ties.py.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "contact/contact.h"
#include "eval/row.h"
#include "geometry/tie.h"
#include "solve/dual.h"
#include "step/scratch.h"

static const double rounding = 64 * DBL_EPSILON;  // of coordinates of about a meter, and of larger ones relative

static void put_words(const char *name, const char *why, char *text, size_t size) {
  size_t used = strlen(text);
  if (used < size) snprintf(text + used, size - used, "%s%s: %s", used ? "; " : "", name, why);
}

static void put_contact(const pbScratch *s, const pbContact_r *c, const char *why, char *text, size_t size) {
  char pair[256];
  put_words(pbScratch_KindName(s, pb_rowContact, (int)(c - s->w.contact), pair, sizeof pair), why, text, size);
}

// Of hard contact the first row of each kind whose law is undecided.
static void explain_laws(const pbScratch *s, char *text, size_t size) {
  static const char *const why[] = {
      [pb_edgeIdle] = "it neither pushes nor parts: pressed together there is a force, moved apart there is none",
      [pb_edgeBound] = "its force is at the very edge of a bound: moved one way it holds, moved the other it slides",
  };
  const pbWork_r *w = &s->w;
  bool told[3] = {false, false, false};
  char name[256];

  for (int k = 0; k < w->nrow; k++) {
    pbEdge edge = pbDual_Edge_r(w, w->row + k);
    if (edge == pb_edgeNone || told[edge]) continue;
    put_words(pbScratch_RowName(s, k, name, sizeof name), why[edge], text, size);
    told[edge] = true;
  }

  // Laws that were solved in a smoothed form only.
  if (w->nrow && w->dual.kappa > 0)
    put_words(pbScratch_RowName(s, w->worst_row, name, sizeof name),
              "no forces were found that obey its law to the end; the derivative is that of a law smoothed a little", text, size);
}

// Contact `first` is the first of its pair. Those within reach of their margin alone push.
bool pbScratch_PairTies(const pbScratch *s, int first) {
  const pbWork_r *w = &s->w;
  const pbContact_r *c = w->contact + first;
  pbColumn_r column;
  pbShape_r s1, s2;
  pbContactPoint_r points[PB_MAX_CONTACT_POINTS];
  int n = 0;

  contact_shapes(&w->constraints, c, &column, &s1, &s2);
  for (; first + n < w->ncon && c[n].geom1 == c->geom1 && c[n].geom2 == c->geom2 && c[n].point == n; n++) {
    points[n].dist = c[n].dist;
    memcpy(points[n].pos, c[n].pos, sizeof points[n].pos);
    memcpy(points[n].normal, c[n].frame, sizeof points[n].normal);
  }
  return pbPair_Tied_r(&s1, &s2, c->margin, n, points);
}

// Of the ties on planes only an upright cylinder's moves points: a capsule's shows in the contact's tangents alone.
static bool features_tie(const pbWork_r *w, const pbContact_r *c, bool *boxes) {
  pbColumn_r column;
  pbShape_r s1, s2;
  contact_shapes(&w->constraints, c, &column, &s1, &s2);
  *boxes = s1.type == pb_geomBox && s2.type == pb_geomBox;
  return (s1.type != pb_geomPlane || s2.type == pb_geomCylinder) && pbPair_Feature_r(&s1, &s2) < 0;
}

// Adds why the contact has none, of each kind that is not `told` yet. A touch begins or ends contact by whatever moves it; method
// impact has its time.
static void explain(const pbScratch *s, const pbContact_r *c, bool told[2], char *text, size_t size) {
  const pbContactSettings *settings = &s->model->contact;
  double gap = c->dist - c->margin, scale = fmax(1, fmax(fabs(c->pos[0]), fmax(fabs(c->pos[1]), fabs(c->pos[2]))));
  bool boxes = false, sharp = settings->onset == 0 && settings->method != pb_contactImpact;
  char why[128];

  bool ties = !told[0] && gap < 0 && features_tie(&s->w, c, &boxes);
  if (!told[0] && gap < 0 && !ties && c->point == 0) ties = pbScratch_PairTies(s, (int)(c - s->w.contact));
  if (ties) {
    put_contact(s, c,
                boxes ? "two faces tie: which of them bounds the contact hangs on the direction of a tilt"
                      : "two features tie: which of them meets hangs on the direction of a move",
                text, size);
    told[0] = true;
  }

  if (told[1] || !sharp || !(fabs(gap) <= rounding * scale)) return;
  snprintf(why, sizeof why, "they touch to %.0e m: moved together there is contact, moved apart there is none", fabs(gap));
  put_contact(s, c, why, text, size);
  told[1] = true;
}

bool pbScratch_TiedPair(const pbScratch *s, char *text, size_t size) {
  for (int k = 0; k < s->w.ncon; k++) {
    if (s->w.contact[k].point != 0 || !pbScratch_PairTies(s, k)) continue;
    pbScratch_KindName(s, pb_rowContact, k, text, size);
    return true;
  }
  return false;
}

const char *pbScratch_Tie(pbScratch *s, char *text, size_t size) {
  pbWork_r *w = &s->w;
  double reach = s->model->contact.onset + 1e-9;
  bool told[2] = {false, false};
  if (size) text[0] = 0;
  if (pb_hard(s->model)) explain_laws(s, text, size);

  // Pair by pair: contacts of the evaluation are overwritten.
  int near = pbContact_Near_r(&w->constraints, reach);
  for (int k = 0; k < near; k++) {
    w->ncon = 0;
    pbStatus status = pbContact_Pair_r(&w->constraints, w->near[k], reach);
    if (status != pb_ok) return status == pb_no_memory ? NULL : text;
    for (int i = 0; i < w->ncon; i++) explain(s, w->contact + i, told, text, size);
  }
  return text;
}
