// Contacts with Coulomb's cone: working memory and the three states of a contact.
#ifndef PB_LCP_CONES_H
#define PB_LCP_CONES_H

#include "lcp/work.h"

typedef struct pbConesWork {
  pbLcpWork base;                       // reduced with three rows a contact, interior with six
  double *M, *q;                        // 6 c x 6 c, 6 c: the pyramids' problem
  double *angle;                        // c: of each pyramid's first edge
  double *z, *s, *zbest;                // 3 c, scaled
  double *step, *target, *tmp;          // 3 c
  int *state;                           // c
  double (*by_s)[3][3], (*by_z)[3][3];  // c: laws for the condensed form
} pbConesWork;

typedef enum pbContactState { pb_contactOpen, pb_contactSticks, pb_contactSlides } pbContactState;

void pbConesWork_Layout(pbArena *arena, pbConesWork *w, int n, int contacts, int e);
pbLcp pbCones_Linear(const pbCones *problem);  // without friction's law: three rows a contact
pbStatus pbConesWork_Begin(pbContext *ctx, const pbCones *problem, void *work, size_t work_size, pbConesWork *w);

// Both follow the smoothed problem; near its end `try` is asked, with w->z set, whether a solution is near.
typedef bool pbConesTry(pbConesWork *w, void *user);
// In the condensed form, from z = s = start without friction.
bool pbCones_Interior(pbConesWork *w, const double *mu, double start, pbConesTry *try, void *user);
bool pbCones_Follow(pbConesWork *w, const double *mu, double z, pbConesTry *try, void *user);

#endif
