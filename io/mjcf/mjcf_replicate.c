// replicate, unrolled in the tree before it is read: every replica is a frame with a copy of the contents, names with a suffix
// (mjcf_copy.c). What refers to the original is dropped with it. Bodies are taken in the order of the file, and attach with them.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_schema.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "io/mjcf/mjcf_copy.h"

#define IS(node, text) (!strcmp((node)->name, text))

// ---- what referred to the contents and cannot any more ------------------------------------------------------------------

// Names that went with the contents are set to this.
enum { GONE = -2 };

typedef struct fate {
  bool gone, unknown;  // refers to what went with the contents; to what was not there before
} fate;

static void look_up_name(const pbMjcfReader *reader, int kind, const char *name, fate *f) {
  int id = pbNames_Find(&reader->names, kind == pb_refXbody ? pb_refBody : kind, name);
  f->gone |= id == GONE;
  f->unknown |= id < 0 && id != GONE;
}

// MuJoCo leaves alone what refers to things that come later in the file; that ends as an unknown name.
static bool refers_to_gone(const pbMjcfReader *reader, const pbXmlNode *node) {
  pbMjcfReference references[PB_MJCF_REFERENCES];
  fate f = {false, false};

  int count = pbMjcf_References(node, references);
  for (int i = 0; i < count; i++) look_up_name(reader, references[i].kind, pbXml_Get(node, references[i].attribute), &f);

  // Stations of a tendon and entries of a tuple are children.
  if (IS(node->parent, "tendon"))
    for (pbXmlNode *station = node->first; station; station = station->next)
      if (!IS(station, "pulley")) look_up_name(reader, pbMjcf_KindOfStation(station), pbXml_Get(station, station->name), &f);

  if (IS(node, "tuple"))
    for (pbXmlNode *entry = node->first; entry; entry = entry->next)
      look_up_name(reader, pbMjcf_KindOf(&(pbXmlNode){.name = pbXml_Get(entry, "objtype")}), pbXml_Get(entry, "objname"), &f);

  return f.gone && !f.unknown;
}

// An equality between inside and outside has no replica; MuJoCo drops it without a word.
static void warn_dropped(const pbMjcfReader *reader, const pbXmlNode *node) {
  pbMjcfReference references[PB_MJCF_REFERENCES];
  int count = pbMjcf_References(node, references);

  // Only where one of the two is still there was it between inside and outside.
  if (!IS(node->parent, "equality") || count < 2) return;

  for (int i = 0; i < count; i++)
    if (pbMjcf_NameExists(reader, references[i].kind, pbXml_Get(node, references[i].attribute)))
      pbContext_Warn(reader->ctx,
                     "%.400s:%d:%d: %s: joins the contents of a replicate with something outside; dropped, as in MuJoCo",
                     node->place.file, node->place.line, node->place.column, node->name);
}

static pbStatus drop_references(pbMjcfReader *reader, pbXmlNode **dropped) {
  // Names of dropped elements are gone as well, so that later kinds that refer to them (sensors of actuators, say) go too.
  for (int k = 0; k < PB_MJCF_OUTSIDE; k++)
    for (pbXmlNode *section = reader->document.root->first; section; section = section->next) {
      if (!IS(section, pbMjcf_Outside[k])) continue;

      pbXmlNode *before = NULL;
      for (pbXmlNode *node = section->first, *next; node; node = next) {
        next = node->next;
        PB_TRY(pbMjcf_CountWork(reader, node));

        if (!refers_to_gone(reader, node)) {
          before = node;
          continue;
        }

        warn_dropped(reader, node);
        PB_TRY(pbMjcf_SetName(reader, node, pbMjcf_KindOutside(section), GONE));

        pbXml_Remove(node, before);
        node->next = *dropped;
        *dropped = node;
      }
    }
  return pb_ok;
}

// From here on names that are gone are free again.
static pbStatus forget_gone(pbMjcfReader *reader, const pbXmlNode *dropped, const pbXmlNode *replicate) {
  for (const pbXmlNode *node = dropped; node; node = node->next)
    PB_TRY(pbMjcf_SetName(reader, node, pbMjcf_KindOutside(node->parent), -1));
  return pbMjcf_SetNamesBelow(reader, replicate, -1);
}

// ---- poses of replicas -----------------------------------------------------------------------------------------------

// Hamilton's product of two quaternions (w, x, y, z); `out` may be one of them.
static void multiply_quaternions(const double *a, const double *b, double *out) {
  double w = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
  double x = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
  double y = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
  double z = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];

  out[0] = w;
  out[1] = x;
  out[2] = y;
  out[3] = z;
}

// v rotated by a unit quaternion q = (w, u): v + w t + u x t with t = 2 u x v.
static void rotate_vector(const double *q, const double *v, double *out) {
  double t[3] = {2 * (q[2] * v[2] - q[3] * v[1]), 2 * (q[3] * v[0] - q[1] * v[2]), 2 * (q[1] * v[1] - q[2] * v[0])};
  out[0] = v[0] + q[0] * t[0] + q[2] * t[2] - q[3] * t[1];
  out[1] = v[1] + q[0] * t[1] + q[3] * t[0] - q[1] * t[2];
  out[2] = v[2] + q[0] * t[2] + q[1] * t[1] - q[2] * t[0];
}

// Euler angles to a quaternion: lower-case axes rotate with the body, upper-case ones are fixed in the parent.
static void from_euler(const pbCompilerSettings *compiler, const double *angles, double factor, double *out) {
  out[0] = 1;
  out[1] = 0;
  out[2] = 0;
  out[3] = 0;

  double unit = compiler->degree ? 3.14159265358979323846 / 180 : 1;

  for (int i = 0; i < 3; i++) {
    char axis = compiler->eulerseq[i];
    double half = 0.5 * factor * angles[i] * unit;
    double step[4] = {pbCos(half), 0, 0, 0};
    step[1 + ((axis | 32) - 'x')] = pbSin(half);  // | 32: lower case

    // About an axis of the body the new rotation acts first, about a fixed one last.
    if (axis >= 'x') multiply_quaternions(out, step, out);
    else multiply_quaternions(step, out, out);
  }
}

// ---- unrolling ----------------------------------------------------------------------------------------------------------

// One frame with a copy of the contents, and copies of what refers to them.
static pbStatus one_replica(pbMjcfCopy *u, const pbXmlNode *replicate, pbXmlNode *parent, const double *pose) {
  pbXmlNode *frame;
  double *own = pbSpecPool_Take(&u->reader->document.pool, 7, sizeof *own);
  pbMjcfReader *reader = u->reader;
  PB_TRY(pbXml_Copy(&reader->document, replicate, parent, &frame));
  if (!own) return NO_MEMORY(replicate);

  memcpy(own, pose, 7 * sizeof *own);

  // The replicate itself becomes the frame of this replica, with a pose instead of attributes.
  frame->name = "frame";
  frame->attribute_count = 0;
  frame->pose = own;

  for (pbXmlNode *child = replicate->first; child; child = child->next) PB_TRY(pbMjcf_CopyBelow(u, child, frame));
  return pbMjcf_CopyReferences(u);
}

// Replicas of one node are made under `holder`, a node that is not in the tree yet.
static pbStatus make_replicas(pbMjcfReader *reader, const pbXmlNode *node, pbXmlNode *holder) {
  double count;
  double offset[3] = {0};
  double euler[3] = {0};

  int n;
  (void)pbMjcf_Real(reader, node, "count", &count);
  if (count < 1) return FAIL(node, "attribute 'count' is %g, expected at least 1", count);
  (void)pbMjcf_Reals(reader, node, "offset", offset, 3, &n);
  (void)pbMjcf_Reals(reader, node, "euler", euler, 3, &n);

  const char *separator = pbXml_Get(node, "sep");
  char suffix[PB_MJCF_TEXT + 16];
  if (separator && strlen(separator) > 100) return FAIL(node, "attribute 'sep' is longer than 100 bytes");

  // Numbers in the suffixes all have the digits of the count, as in MuJoCo.
  int digits = snprintf(NULL, 0, "%d", (int)count);
  pbMjcfCopy u = {.reader = reader, .from = reader, .prefix = "", .suffix = suffix};

  // Replica i has the rotation i * euler; its position is the sum of the offsets, each seen from the replica before.
  double rotation[4] = {1, 0, 0, 0};
  double step[4];
  double pose[7] = {0, 0, 0, 1, 0, 0, 0};
  from_euler(&reader->spec->compiler, euler, 1, step);
  for (int i = 0; i < (int)count; i++) {
    snprintf(suffix, sizeof suffix, "%s%0*d", separator ? separator : "", digits, i);
    from_euler(&reader->spec->compiler, euler, i, pose + 3);

    PB_TRY(one_replica(&u, node, holder, pose));
    double moved[3];
    rotate_vector(rotation, offset, moved);
    for (int k = 0; k < 3; k++) pose[k] += moved[k];
    multiply_quaternions(rotation, step, rotation);
  }

  // What still refers to the originals goes with them.
  pbXmlNode *dropped = NULL;  // elements outside the tree that went with the originals
  PB_TRY(pbMjcf_SetNamesBelow(reader, node, GONE));
  PB_TRY(drop_references(reader, &dropped));
  return forget_gone(reader, dropped, node);
}

static pbStatus unroll_below(pbMjcfReader *reader, pbXmlNode *parent);

// Replace a replicate by its frames; *last is the last of them.
static pbStatus unroll_one(pbMjcfReader *reader, pbXmlNode *node, pbXmlNode *before, pbXmlNode **last) {
  pbXmlNode holder = {.name = "replicate", .element = node->element};
  for (pbXmlNode *child = node->first; child; child = child->next)
    if (IS(child, "joint") || IS(child, "freejoint") || IS(child, "inertial"))
      return FAIL(child, "cannot stand directly in a replicate; wrap it in a body");

  // Inner replicates first: each is unrolled as often as the outer one copies it.
  PB_TRY(unroll_below(reader, node));
  PB_TRY(make_replicas(reader, node, &holder));

  // The frames take the place of the replicate in its parent's list of children.
  pbMjcf_Replace(node, before, &holder);
  *last = holder.last;
  return pb_ok;
}

static pbStatus unroll_below(pbMjcfReader *reader, pbXmlNode *parent) {
  pbXmlNode *before = NULL;
  for (pbXmlNode *node = parent->first; node; node = before->next) {
    if (IS(node, "replicate")) {
      PB_TRY(unroll_one(reader, node, before, &before));
      continue;
    }

    if (IS(node, "attach")) {
      PB_TRY(pbMjcf_Attach(reader, node, before, &before));
      continue;
    }

    PB_TRY(pbMjcf_SetName(reader, node, pbMjcf_KindOf(node), 1));
    PB_TRY(unroll_below(reader, node));
    before = node;
  }
  return pb_ok;
}

static bool has_copies(const pbXmlNode *node) {
  if (IS(node, "replicate") || IS(node, "attach")) return true;
  for (pbXmlNode *child = node->first; child; child = child->next)
    if (has_copies(child)) return true;
  return false;
}

pbStatus pbMjcf_Unroll(pbMjcfReader *reader) {
  pbXmlNode *root = reader->document.root;
  if (!has_copies(root)) return pb_ok;

  // The world is there without being in the file.
  if (!pbNames_Set(&reader->names, pb_refBody, "world", 1)) return NO_MEMORY(root);

  // Names of the sections outside the tree are known from the start, those of the tree as the walk meets them.
  for (pbXmlNode *section = root->first; section; section = section->next) {
    int kind = pbMjcf_KindOutside(section);
    if (kind != pb_refNone)
      for (pbXmlNode *node = section->first; node; node = node->next) PB_TRY(pbMjcf_SetName(reader, node, kind, 1));
  }

  for (pbXmlNode *section = root->first; section; section = section->next)
    if (IS(section, "worldbody")) PB_TRY(unroll_below(reader, section));

  return pb_ok;
}
