// Where the file is that a name in a URDF means: package://NAME/REST, file:///PATH, an absolute name, or one that is meant from
// the file's own folder.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "io/file.h"
#include "io/urdf/urdf_reader.h"

// ---- packages -----------------------------------------------------------------------------------------------------------

typedef struct search {  // for a file in a package
  pbUrdfReader *reader;
  const char *package, *rest;
  int length;             // of the package's name
  char folder[PATH_MAX];  // the package's, as last found; "" if none was
  char *real;             // the file, once it is found
} search;

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_last_part(const char *path, const char *name, int length) {
  size_t end = strlen(path);
  while (end > 1 && path[end - 1] == '/') end--;
  if (end < (size_t)length || strncmp(path + end - (size_t)length, name, (size_t)length) != 0) return false;
  return end == (size_t)length || path[end - (size_t)length - 1] == '/';
}

// The file in a folder that is the package; files below it may be read then.
static pbStatus try_package(search *s, const char *folder) {
  char path[PATH_MAX];
  if (s->real || !is_folder(folder)) return pb_ok;

  snprintf(s->folder, sizeof s->folder, "%s", folder);
  if (snprintf(path, sizeof path, "%s/%s", folder, s->rest) >= (int)sizeof path) return pb_ok;
  PB_TRY(pbXml_RealPath(s->reader->document, path, &s->real));
  return s->real ? pbXml_Allow(s->reader->document, folder) : pb_ok;
}

// Folders with packages, ':' between them; each may be the package itself. inside: where in them packages lie ("share/").
static pbStatus try_list(search *s, const char *list, const char *inside) {
  char folder[PATH_MAX], package[PATH_MAX];

  for (; list && *list && !s->real; list += *list == ':') {
    int n = (int)strcspn(list, ":");
    bool fits = snprintf(folder, sizeof folder, "%.*s", n, list) < (int)sizeof folder &&
                snprintf(package, sizeof package, "%.*s/%s%.*s", n, list, inside, s->length, s->package) < (int)sizeof package;
    list += n;
    if (!n || !fits) continue;

    // The package itself, or a folder with packages.
    if (is_last_part(folder, s->package, s->length)) PB_TRY(try_package(s, folder));
    PB_TRY(try_package(s, package));
  }
  return pb_ok;
}

// Does a folder's package.xml say that it is this package?
static bool is_named_package(const search *s, const char *folder) {
  enum { MOST = 1 << 20 };
  char path[PATH_MAX];
  char *text = NULL;
  size_t length;
  if (snprintf(path, sizeof path, "%s/package.xml", folder) >= (int)sizeof path || access(path, R_OK) != 0) return false;
  if (pbFile_ReadAll(s->reader->ctx, path, MOST, &text, &length) != pb_ok) return false;

  // <name>NAME</name>, blanks around it or not.
  const char *name = strstr(text, "<name>");
  if (name) name += 6 + strspn(name + 6, " \t\r\n");
  bool same = name && !strncmp(name, s->package, (size_t)s->length) && strchr(" \t\r\n<", name[s->length]);
  pbContext_Free(s->reader->ctx, text);
  return same;
}

// The folders above the file, from its own outwards: one that is the package by its name or its package.xml, and packages beside
// them, which must have a package.xml, but for those in the file's own folder, which may be read: a name may not make any folder
// readable.
static pbStatus try_ancestors(search *s) {
  char folder[PATH_MAX], beside[PATH_MAX];
  if (snprintf(folder, sizeof folder, "%s", s->reader->document->folder) >= (int)sizeof folder) return pb_ok;

  while (strlen(folder) > 1 && !s->real) {
    if (is_last_part(folder, s->package, s->length) || is_named_package(s, folder)) PB_TRY(try_package(s, folder));
    bool fits = snprintf(beside, sizeof beside, "%s/%.*s", folder, s->length, s->package) < (int)sizeof beside;
    bool own = !strcmp(folder, s->reader->document->folder);
    if (fits && !s->real && (own || is_named_package(s, beside))) PB_TRY(try_package(s, beside));

    // One further up.
    char *slash = strrchr(folder, '/');
    *slash = 0;
  }
  return pb_ok;
}

// Published files have package:///NAME/REST, too.
static pbStatus find_in_package(pbUrdfReader *reader, const pbXmlNode *node, const char *name, char **real) {
  name += strspn(name, "/");
  search s = {.reader = reader, .package = name, .length = (int)strcspn(name, "/")};
  if (!s.length || name[s.length] != '/' || *name == '.')
    return FAIL(node, "expected a package and a file in it, found '%.200s'", name);
  s.rest = name + s.length + 1;

  // In the order in which the user is nearest to them.
  PB_TRY(try_list(&s, reader->options->package_path, ""));
  PB_TRY(try_list(&s, getenv("ROS_PACKAGE_PATH"), ""));
  PB_TRY(try_list(&s, getenv("AMENT_PREFIX_PATH"), "share/"));
  PB_TRY(try_ancestors(&s));

  *real = s.real;
  if (s.real) return pb_ok;
  if (*s.folder)
    return pbXml_Fail(reader->document, pb_file, node, "package folder '%.300s' has no file '%.200s'", s.folder, s.rest);
  return pbXml_Fail(
      reader->document, pb_file, node,
      "package '%.*s' cannot be found: give the folder that it lies in (--package-path DIR), or ROS_PACKAGE_PATH or "
      "AMENT_PREFIX_PATH in the environment",
      s.length, s.package);
}

// ---- names --------------------------------------------------------------------------------------------------------------

// As a `mujoco` element says: only the file's name, in the folder for meshes.
static bool join_meshdir(const pbUrdfReader *reader, const char *name, char *path, size_t size) {
  const char *folder = reader->folders.meshdir ? reader->folders.meshdir : "";
  const char *slash = strrchr(name, '/');
  if (reader->folders.strippath && slash) name = slash + 1;
  if (*name == '/') folder = "";

  const char *between = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
  return snprintf(path, size, "%s%s%s", folder, between, name) < (int)size;
}

pbStatus pbUrdf_FindFile(pbUrdfReader *reader, const pbXmlNode *node, const char *name, char **real) {
  char path[PATH_MAX];
  *real = NULL;
  if (!reader->document->folder) return REFUSE(node, "a model given as text cannot read file '%.200s'", name);

  // Packages, as ROS and Gazebo write them.
  bool package = !strncmp(name, "package://", 10), model = !strncmp(name, "model://", 8);
  if ((package || model) && !reader->folders.strippath) {
    PB_TRY(find_in_package(reader, node, name + (package ? 10 : 8), real));
    return pbXml_CheckInside(reader->document, node, name, *real);
  }

  if (!strncmp(name, "file://", 7)) name += 7;
  else if (strstr(name, "://") && !reader->folders.strippath)
    return REFUSE(node, "'%.200s': expected package://, file:// or the name of a file", name);

  if (!join_meshdir(reader, name, path, sizeof path)) return FAIL(node, "the name of its file is too long");
  pbStatus status = pbXml_FindFile(reader->document, node, path, real);
  if (status != pb_file || !strcmp(path, name)) return status;

  // As those read it who know no mujoco element.
  return pbXml_FindFile(reader->document, node, name, real);
}
