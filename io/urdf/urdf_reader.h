// Inside of the URDF reader: what its files share. One reader per file that is read.
#ifndef PB_IO_URDF_READER_H
#define PB_IO_URDF_READER_H

#include "compile/spec_names.h"
#include "io/mjcf/mjcf.h"
#include "io/urdf/urdf.h"

typedef enum pbUrdfType {
  pb_urdfRevolute,
  pb_urdfContinuous,
  pb_urdfPrismatic,
  pb_urdfFixed,
  pb_urdfFloating,
  pb_urdfPlanar,
  pb_urdfSpherical  // not of URDF's own, but simulators know it
} pbUrdfType;

typedef struct pbUrdfLink {
  const pbXmlNode *node;
  const char *name;
  int joint;                 // of which it is the child; -1: the root
  int first, last, sibling;  // joints of which it is the parent, and the next joint of its own parent; -1: none
  int body;                  // in the spec
  bool still;                // it stands still in the world, there:
  double pos[3], quat[4];
  double density;     // of its shapes that collide, kg/m^3; 0: none is stated
  const char *wrong;  // with its inertia, taken by itself; NULL: nothing
} pbUrdfLink;

typedef struct pbUrdfJoint {
  const pbXmlNode *node, *mimic;  // mimic: its element of that name, or NULL
  const char *name;
  pbUrdfType type;
  int parent, child;  // links
} pbUrdfJoint;

typedef struct pbUrdfIgnored {  // a kind of element or attribute that is not read
  const char *what;
  const pbXmlNode *first;  // where it stands first
  int count;
} pbUrdfIgnored;

enum { PB_URDF_IGNORED = 64 };  // most such kinds that are told apart

typedef struct pbUrdfReader {
  pbContext *ctx;
  pbSpec *spec;
  pbXmlDocument *document;
  const pbUrdfOptions *options;
  pbUrdfLink *links;
  pbUrdfJoint *joints;
  int link_count, joint_count;
  int root;                  // link
  const pbXmlNode **colors;  // of materials
  int color_count;
  const pbXmlNode **mesh_nodes;  // of the meshes of the spec
  pbNames names;                 // of the kinds below
  pbMjcfFolders folders;         // as a `mujoco` element says
  pbUrdfIgnored ignored[PB_URDF_IGNORED];
  int ignored_count;
} pbUrdfReader;

enum { PB_URDF_LINK, PB_URDF_JOINT, PB_URDF_MATERIAL, PB_URDF_GEOM, PB_URDF_MESH, PB_URDF_MESH_NAME };  // kinds of names

#define FAIL(node, ...)   pbXml_Fail(reader->document, pb_bad_input, node, __VA_ARGS__)
#define REFUSE(node, ...) pbXml_Fail(reader->document, pb_unsupported, node, __VA_ARGS__)
#define NO_MEMORY(node)   pbXml_Fail(reader->document, pb_no_memory, node, "no memory to read it")
#define WARN(node, ...)   pbXml_Warn(reader->document, node, __VA_ARGS__)

// ---- urdf_values.c: attributes and children
// The first child of that name, or NULL.
const pbXmlNode *pbUrdf_Child(const pbXmlNode *node, const char *name);
// The child, which must be there.
PB_NODISCARD pbStatus pbUrdf_Need(pbUrdfReader *reader, const pbXmlNode *node, const char *name, const pbXmlNode **child);
// `count` numbers of an attribute; values keep what they have where it is not given. given: may be NULL.
PB_NODISCARD pbStatus pbUrdf_Reals(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, int count, double *values,
                                   bool *given);
// The same of an attribute that must be there.
PB_NODISCARD pbStatus pbUrdf_NeedReals(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, int count,
                                       double *values);
// Of a mesh: three numbers, or one for all directions. scale keeps what it has where none is given.
PB_NODISCARD pbStatus pbUrdf_Scale(pbUrdfReader *reader, const pbXmlNode *node, double scale[3]);
// A text that must be there and not be empty.
PB_NODISCARD pbStatus pbUrdf_NeedText(pbUrdfReader *reader, const pbXmlNode *node, const char *attribute, const char **text);
// Pose by the `origin` of a node, the identity where it has none.
PB_NODISCARD pbStatus pbUrdf_Origin(pbUrdfReader *reader, const pbXmlNode *node, pbPose *pose);

// ---- urdf_check.c: the whole tree against what is known
// Refuses text for xacro and repeated elements that differ; collects kinds of elements and attributes that are not read.
PB_NODISCARD pbStatus pbUrdf_Check(pbUrdfReader *reader);
// A warning for each kind.
void pbUrdf_WarnIgnored(pbUrdfReader *reader);

// ---- urdf_link.c: inertia and shapes of a link onto its body
PB_NODISCARD pbStatus pbUrdf_Link(pbUrdfReader *reader, pbUrdfLink *link);

// ---- urdf_weld.c: inertias that no body has, judged together with what they are fixed to; once all links are there
PB_NODISCARD pbStatus pbUrdf_JudgeInertia(pbUrdfReader *reader);
bool pbUrdf_IsTriangle(const double moments[3]);

// ---- urdf_joint.c: the joint of a link, before its body's shapes; what mimics what, and motors, once all are there
PB_NODISCARD pbStatus pbUrdf_Joint(pbUrdfReader *reader, const pbUrdfJoint *joint);
PB_NODISCARD pbStatus pbUrdf_Mimics(pbUrdfReader *reader);
PB_NODISCARD pbStatus pbUrdf_Motors(pbUrdfReader *reader);

// ---- urdf_mesh.c: the name of a mesh in the spec, added to it where it is new; the files of those that act
PB_NODISCARD pbStatus pbUrdf_Mesh(pbUrdfReader *reader, const pbXmlNode *node, const char **name);
PB_NODISCARD pbStatus pbUrdf_LoadMeshes(pbUrdfReader *reader);

// ---- urdf_file.c: where the file is that a URI or a name means; *real is NULL where there is none
PB_NODISCARD pbStatus pbUrdf_FindFile(pbUrdfReader *reader, const pbXmlNode *node, const char *name, char **real);

#endif
