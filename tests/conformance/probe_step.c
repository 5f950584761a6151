// What an evaluation found, for either program.
#include "eval/contact.h"
#include "eval/work.h"

enum { numbers = 9 };  // of a contact: geoms, contact point, distance, place, two of its normal's components

int NUM(probe_Contacts)(const void *work, double *out);
int NUM(probe_Contacts)(const void *work, double *out) {
  const NUM(pbWork) *w = work;
  for (int k = 0; k < w->ncon; k++, out += numbers) {
    const NUM(pbContact) *c = w->contact + k;
    out[0] = c->geom1;
    out[1] = c->geom2;
    out[2] = c->point;
    out[3] = re(c->dist);
    for (int i = 0; i < 3; i++) out[4 + i] = re(c->pos[i]);
    out[7] = re(c->frame[0]);
    out[8] = re(c->frame[1]);
  }
  return numbers * w->ncon;
}
