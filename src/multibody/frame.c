// Frames of sites, geoms, bodies and cameras. Derivative: frame_adjoint.h.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/conformance/test_step.c.
#include "multibody/frame.h"

#include "eval/mechanism.h"
#include "math/vec.h"
#include "multibody/spatial.h"

static void camera_pose(const NUM(pbMechanism) *w, int camera, NUM(pbFrame) *f) {
  num q[4];
  f->body = w->m->cam_bodyid[camera];
  f->pos = f->own;
  f->mat = f->own + 3;
  m3_mulv(f->own, w->xmat + 9 * f->body, w->p.cam_pos + 3 * camera);
  v3_addto(f->own, w->xpos + 3 * f->body);

  quat_mul(q, w->xquat + 4 * f->body, w->p.cam_quat + 4 * camera);
  quat_to_mat(f->own + 3, q);
}

void NUM(pbFrame_Pose)(const NUM(pbMechanism) *w, int objtype, int objid, NUM(pbFrame) *f) {
  // What the object's frame is: MuJoCo takes a body's inertial frame unless its own is asked for.
  switch (objtype) {
    case pb_refSite:
      f->body = w->m->site_bodyid[objid];
      f->pos = w->site_xpos + 3 * objid;
      f->mat = w->site_xmat + 9 * objid;
      break;
    case pb_refGeom:
      f->body = w->m->geom_bodyid[objid];
      f->pos = w->geom_xpos + 3 * objid;
      f->mat = w->geom_xmat + 9 * objid;
      break;
    case pb_refBody:
      f->body = objid;
      f->pos = w->xipos + 3 * objid;
      f->mat = w->ximat + 9 * objid;
      break;
    case pb_refCamera: camera_pose(w, objid, f); break;
    default:
      f->body = objid;
      f->pos = w->xpos + 3 * objid;
      f->mat = w->xmat + 9 * objid;
  }
}

void NUM(pbFrame_At)(const NUM(pbMechanism) *w, int objtype, int objid, NUM(pbFrame) *f) {
  NUM(pbFrame_Pose)(w, objtype, objid, f);
  body_offset(w, f->body, f->pos, f->d);
}

void NUM(pbFrame_Quat)(const NUM(pbMechanism) *w, int objtype, int objid, num q[4]) {
  switch (objtype) {
    case pb_refSite: quat_mul(q, w->xquat + 4 * w->m->site_bodyid[objid], w->p.site_quat + 4 * objid); break;
    case pb_refGeom: quat_mul(q, w->xquat + 4 * w->m->geom_bodyid[objid], w->p.geom_quat + 4 * objid); break;
    case pb_refBody: quat_mul(q, w->xquat + 4 * objid, w->p.body_iquat + 4 * objid); break;
    case pb_refCamera: quat_mul(q, w->xquat + 4 * w->m->cam_bodyid[objid], w->p.cam_quat + 4 * objid); break;
    default: quat_copy(q, w->xquat + 4 * objid);
  }
}

void NUM(pbFrame_Velocity)(const NUM(pbMechanism) *w, const NUM(pbFrame) *f, num v[3]) {
  const num *V = w->V + 6 * f->body;
  PB_POINTVEL(v, V, f->d);
}

void NUM(pbFrame_Acceleration)(const NUM(pbMechanism) *w, const NUM(pbFrame) *f, num a[3]) {
  const num *A = w->A + 6 * f->body;
  num v[3];
  NUM(pbFrame_Velocity)(w, f, v);
  PB_POINTVEL(a, A, f->d);
  v3_addcross(a, w->V + 6 * f->body, v);
}

static bool is_inside(int type, const double size[3], const double p[3]) {
  double z = fmax(fabs(p[2]) - size[1], 0), across = p[0] * p[0] + p[1] * p[1], sum = 0;
  switch (type) {
    case pb_geomCapsule: return across + z * z < size[0] * size[0];
    case pb_geomCylinder: return fabs(p[2]) < size[1] && across < size[0] * size[0];
    case pb_geomBox: return fabs(p[0]) < size[0] && fabs(p[1]) < size[1] && fabs(p[2]) < size[2];
    case pb_geomEllipsoid:
      for (int k = 0; k < 3; k++) sum += p[k] * p[k] / (size[k] * size[k]);
      return sum < 1;
    default: return across + p[2] * p[2] < size[0] * size[0];
  }
}

bool NUM(pbFrame_InSite)(const NUM(pbMechanism) *w, int site, const num local[3]) {
  const num *own = w->p.site_size + 3 * site;
  const double p[3] = {re(local[0]), re(local[1]), re(local[2])}, size[3] = {re(own[0]), re(own[1]), re(own[2])};
  return is_inside(w->m->site_type[site], size, p);
}
