// Where the ends of an equality between bodies or sites are: for its rows, their adjoint, and the sensors that read its force.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include <pullback/enums.h>

#include "eval/mechanism.h"
#include "math/vec.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "multibody/equality.h"

void NUM(pbEquality_Ends)(const NUM(pbMechanism) *w, int e, int body[2], num p1[3], num p2[3], num q1[4], num q2[4]) {
  // Sites: their frames.
  const pbModel *m = w->m;
  int a = m->eq_obj1id[e], b = m->eq_obj2id[e];
  if (m->eq_objtype[e] == pb_eqObjSite) {
    body[0] = m->site_bodyid[a];
    body[1] = m->site_bodyid[b];
    v3_copy(p1, w->site_xpos + 3 * a);
    v3_copy(p2, w->site_xpos + 3 * b);
    quat_mul(q1, w->xquat + 4 * body[0], w->p.site_quat + 4 * a);
    quat_mul(q2, w->xquat + 4 * body[1], w->p.site_quat + 4 * b);
    return;
  }

  // Bodies: anchors in their frames; the first one's rotation with the relative pose that a weld holds.
  bool weld = pbEquality_Of(m->eq_type[e]) == pb_ofPoses;
  body[0] = a;
  body[1] = b;
  m3_mulv(p1, w->xmat + 9 * a, w->p.eq_data + (weld ? pbWeld_Anchor(e, 0) : pbConnect_Anchor(e, 0)));
  v3_addto(p1, w->xpos + 3 * a);
  m3_mulv(p2, w->xmat + 9 * b, w->p.eq_data + (weld ? pbWeld_Anchor(e, 1) : pbConnect_Anchor(e, 1)));

  v3_addto(p2, w->xpos + 3 * b);
  if (weld) quat_mul(q1, w->xquat + 4 * a, w->p.eq_data + pbWeld_Relquat(e));
  else quat_copy(q1, w->xquat + 4 * a);
  quat_copy(q2, w->xquat + 4 * b);
}
