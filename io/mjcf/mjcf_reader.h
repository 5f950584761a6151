// Inside of the MJCF reader: what its files share. One reader per file that is read.
#ifndef PB_IO_MJCF_READER_H
#define PB_IO_MJCF_READER_H

#include "compile/spec_names.h"
#include "io/mjcf/mjcf_schema.h"
#include "io/xml/xml.h"

typedef struct pbMjcfElement {  // an element of the table: rows [first + 1, first + count) are its attributes
  const char *path;
  int first, count;
} pbMjcfElement;

typedef struct pbMjcfClass {  // a defaults class, all values resolved
  const char *name;
  const struct pbMjcfClass *parent;
  const char *written_as;  // element the actuator default was written with
  pbJointDef joint;
  pbGeomDef geom;
  pbSiteDef site;
  pbCameraDef camera;
  pbLightDef light;
  pbPairDef pair;
  pbEqualityDef equality;
  pbTendonDef tendon;
  pbActuatorDef actuator;
  pbMeshDef mesh;
  double material_rgba[4];
} pbMjcfClass;

enum { PB_MJCF_CLASSES = 10000, PB_MJCF_TEXT = 1000 };  // most defaults classes; most bytes of a name

typedef struct pbMjcfReader {
  pbContext *ctx;
  pbSpec *spec;
  pbXmlDocument document;
  const pbMjcfRow *rows;
  pbMjcfElement *elements;
  int element_count;
  pbMjcfClass **classes;
  int class_count;
  int work;                        // elements visited for replicas
  const char *meshdir, *assetdir;  // folders that files of meshes are in; NULL: the model's own
  bool strippath;                  // only the names of their files count
  pbNames names;                   // of defaults classes (kind -1), and while replicas are made of elements (kind: pb_ref*)

} pbMjcfReader;

#define FAIL(node, ...)   pbXml_Fail(&reader->document, pb_bad_input, node, __VA_ARGS__)
#define REFUSE(node, ...) pbXml_Fail(&reader->document, pb_unsupported, node, __VA_ARGS__)
#define NO_MEMORY(node)   pbXml_Fail(&reader->document, pb_no_memory, node, "no memory to read it")

// ---- mjcf_values.c: text to values
// Check the value of an attribute against its row; for refused ones against the neutral value.
PB_NODISCARD pbStatus pbMjcf_CheckValue(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfRow *row, const char *value);
// Store all attributes of a node that *def has a member for (the definition of its kind).
PB_NODISCARD pbStatus pbMjcf_Store(pbMjcfReader *reader, const pbXmlNode *node, void *def);
// Values of single attributes that code takes up (already checked): true if given.
bool pbMjcf_Real(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, double *value);
bool pbMjcf_Reals(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, double *values, int most, int *count);
int pbMjcf_Word(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute, int otherwise);
const pbMjcfRow *pbMjcf_Row(const pbMjcfReader *reader, const pbXmlNode *node, const char *attribute);

// ---- mjcf_settings.c: one element each
PB_NODISCARD pbStatus pbMjcf_Compiler(pbMjcfReader *reader, const pbXmlNode *node);
PB_NODISCARD pbStatus pbMjcf_Option(pbMjcfReader *reader, const pbXmlNode *node);
PB_NODISCARD pbStatus pbMjcf_Size(pbMjcfReader *reader, const pbXmlNode *node);
PB_NODISCARD pbStatus pbMjcf_Statistic(pbMjcfReader *reader, const pbXmlNode *node);

// ---- mjcf_check.c: the whole tree against the table
PB_NODISCARD pbStatus pbMjcf_Index(pbMjcfReader *reader);
PB_NODISCARD pbStatus pbMjcf_CheckTree(pbMjcfReader *reader);

// ---- mjcf_mesh.c: the element, without its file; then the files of those meshes that act
PB_NODISCARD pbStatus pbMjcf_Mesh(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *class);
PB_NODISCARD pbStatus pbMjcf_LoadMeshes(pbMjcfReader *reader);
// Where the file of an asset is: in the folder of meshes, which is meant from the model's own. false: longer than the room.
bool pbMjcf_AssetPath(const pbMjcfReader *reader, const char *file, char *path, size_t size);
// Its name without folder and ending; NULL: no memory.
const char *pbMjcf_NameByFile(pbMjcfReader *reader, const char *file);
// The k-th element of this name among the assets.
const pbXmlNode *pbMjcf_AssetNode(const pbMjcfReader *reader, const char *element, int k);

// ---- mjcf_hfield.c: the same for height fields
PB_NODISCARD pbStatus pbMjcf_Hfield(pbMjcfReader *reader, const pbXmlNode *node);
PB_NODISCARD pbStatus pbMjcf_LoadHfields(pbMjcfReader *reader);

// ---- mjcf_replicate.c: replicate becomes frames, what refers to the contents is copied as well
PB_NODISCARD pbStatus pbMjcf_Replicate(pbMjcfReader *reader);

// ---- mjcf_actuator.c: an actuator element of a class onto a definition; a default of one onto the class
PB_NODISCARD pbStatus pbMjcf_Actuator(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *class, pbActuatorDef *def);
PB_NODISCARD pbStatus pbMjcf_ActuatorDefault(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfClass *class);

// ---- mjcf_sensor.c: a sensor element onto the default definition
PB_NODISCARD pbStatus pbMjcf_Sensor(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def);

#endif
