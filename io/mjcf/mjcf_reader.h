// Inside of the MJCF reader: what its files share. One reader per model: the main one, and each that is attached.
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

enum {
  PB_MJCF_CLASSES = 10000,  // most defaults classes, of all models together
  PB_MJCF_TEXT = 1000,      // most bytes of a name
  PB_MJCF_MODELS = 1000     // most models that are attached, or named to be
};

typedef struct pbMjcfReader pbMjcfReader;

typedef struct pbMjcfFamily {  // what the readers of a model and of those that it attaches share
  pbMjcfReader **readers;      // by pbPlace.model
  int reader_count;
  pbMjcfClass **classes;
  int class_count;
  int attach_count, key_count;
  int work;  // elements visited for copies
} pbMjcfFamily;

typedef struct pbMjcfSettings {
  pbCompilerSettings compiler;
  pbOptionSettings option;
  pbStatisticSettings statistic;
  pbSizeSettings size;
} pbMjcfSettings;

typedef struct pbMjcfKey {  // a keyframe in its model's own order; one of an attached model as long as it is not put into that
  struct pbMjcfKey *next;
  pbKeyDef def;
  const struct pbMjcfKey *from;  // NULL: stated in this model
  int attach;                    // by which attach it came
} pbMjcfKey;

struct pbMjcfReader {
  pbContext *ctx;
  pbSpec *spec;
  pbXmlDocument document;
  const pbMjcfRow *rows;
  pbMjcfElement *elements;
  int element_count;
  pbMjcfFamily *family;
  pbMjcfReader *parent;                         // of the model that names this one; NULL: the main model
  int id, depth;                                // pbPlace.model of what stands in it; how many models are around it
  const char *name, *real;                      // of the model; path of its file
  const pbMjcfClass *main;                      // defaults of what names no class
  const char *meshdir, *assetdir, *texturedir;  // folders that files are in; NULL: the model's own
  bool strippath;                               // only the names of their files count
  pbNames names;               // of defaults classes (kind -1), and while copies are made of elements (kind: pb_ref*)
  pbMjcfSettings settings;     // of an attached model
  bool told;                   // that its settings are others
  pbMjcfKey *keys, *last_key;  // those of attached models behind its own
};

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

// ---- mjcf.c
// The reader of the model that a node comes from.
pbMjcfReader *pbMjcf_ReaderOf(const pbMjcfReader *reader, const pbXmlNode *node);
// A defaults class of this name, in the model that the node comes from; NULL with the error set if there is none.
const pbMjcfClass *pbMjcf_FindClass(pbMjcfReader *reader, const pbXmlNode *node, const char *name);
// Class an element names, else `otherwise`.
const pbMjcfClass *pbMjcf_ClassOf(pbMjcfReader *reader, const pbXmlNode *node, const char *attribute,
                                  const pbMjcfClass *otherwise);
// Everything before the tree is read: files, checks, settings, defaults, attached models, copies.
PB_NODISCARD pbStatus pbMjcf_Prepare(pbMjcfReader *reader);

// ---- mjcf_custom.c: numbers, texts and tuples
const char *pbMjcf_ObjectWord(int type);  // of a pb_ref*: "body", "xbody", ...
PB_NODISCARD pbStatus pbMjcf_Custom(pbMjcfReader *reader, const pbXmlNode *section);

// ---- mjcf_attach.c
// The models among the assets: prepared by readers of their own.
PB_NODISCARD pbStatus pbMjcf_Models(pbMjcfReader *reader, const pbXmlNode *section);
// Put what an attach names in its place; *last is what stands there then.
PB_NODISCARD pbStatus pbMjcf_Attach(pbMjcfReader *reader, pbXmlNode *node, pbXmlNode *before, pbXmlNode **last);
// Name of an asset as it is in the whole model. false: no memory.
bool pbMjcf_AssetName(pbMjcfReader *reader, const pbXmlNode *node, const char **name);
// The class that what stands at the node has where it names none.
const char *pbMjcf_ClassAt(const pbXmlNode *node);

// ---- mjcf_conflict.c: settings of a model against those of one that is attached, by compiler conflict
PB_NODISCARD pbStatus pbMjcf_Conflicts(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfReader *attached);

// ---- mjcf_key.c: keyframes of this model, then those of attached ones, in the order of its state
PB_NODISCARD pbStatus pbMjcf_Keys(pbMjcfReader *reader);
// Of a model that is attached with names of this prefix.
PB_NODISCARD pbStatus pbMjcf_AttachKeys(pbMjcfReader *reader, const pbMjcfReader *attached, const char *prefix, int attach);

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
// Real path of an asset's file: in the folder of meshes of the model it comes from, which is meant from that model's own.
PB_NODISCARD pbStatus pbMjcf_FindAsset(pbMjcfReader *reader, const pbXmlNode *node, const char *file, char **real);
// Where the spec is to be kept for a file (pbSpec_KeepSource): the real path in place of the name of a file, of a picture or of
// what is where meshes are; one that cannot be found keeps its name. false: no memory.
bool pbMjcf_KeepPath(pbMjcfReader *reader, const pbXmlNode *node, bool picture, const char **file);
// Its name without folder and ending; NULL: no memory.
const char *pbMjcf_NameByFile(pbMjcfReader *reader, const char *file);
// The k-th element of this name among the assets.
const pbXmlNode *pbMjcf_AssetNode(const pbMjcfReader *reader, const char *element, int k);

// ---- mjcf_hfield.c: the same for height fields
PB_NODISCARD pbStatus pbMjcf_Hfield(pbMjcfReader *reader, const pbXmlNode *node);
PB_NODISCARD pbStatus pbMjcf_LoadHfields(pbMjcfReader *reader);

// ---- mjcf_replicate.c: replicate and attach become frames and bodies, what refers to the contents is copied as well
PB_NODISCARD pbStatus pbMjcf_Unroll(pbMjcfReader *reader);

// ---- mjcf_actuator.c: an actuator element of a class onto a definition; a default of one onto the class
PB_NODISCARD pbStatus pbMjcf_Actuator(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *class, pbActuatorDef *def);
PB_NODISCARD pbStatus pbMjcf_ActuatorDefault(pbMjcfReader *reader, const pbXmlNode *node, pbMjcfClass *class);

// ---- mjcf_sensor.c: a sensor element onto the default definition
PB_NODISCARD pbStatus pbMjcf_Sensor(pbMjcfReader *reader, const pbXmlNode *node, pbSensorDef *def);

#endif
