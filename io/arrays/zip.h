// Inside of array input and output: members of a ZIP archive, one after another.
#ifndef PB_IO_ZIP_H
#define PB_IO_ZIP_H

#include "io/arrays/arrays.h"

enum {  // bytes of the records of a ZIP
  PB_ZIP_END = 22,
  PB_ZIP_END64 = 56,
  PB_ZIP_LOCATOR = 20,
  PB_ZIP_CENTRAL = 46,
  PB_ZIP_LOCAL = 30,
  PB_ZIP_NAME = 1024  // of a name with its closing zero, at most
};

typedef struct pbZipMember {
  char name[PB_ZIP_NAME];  // printable UTF-8
  uint64_t stored, plain, offset;
  uint32_t crc;
  unsigned method, flags;
} pbZipMember;

typedef struct pbZip {
  pbContext *ctx;
  FILE *stream;
  const char *file;
  uint64_t size;                       // of the file
  uint64_t directory, directory_size;  // of the central directory
  uint64_t entries, passed;            // members; those that Next has given
  unsigned char *bytes;                // the directory
  size_t at;
} pbZip;

// Find the directory and read it. The stream and the name stay the caller's. Close it in any case.
PB_NODISCARD pbStatus pbZip_Open(pbContext *ctx, FILE *stream, uint64_t size, const char *file, pbZip *zip);
void pbZip_Close(pbZip *zip);
// The next member, of `entries` in all; after Rewind the first again.
PB_NODISCARD pbStatus pbZip_Next(pbZip *zip, pbZipMember *member);
void pbZip_Rewind(pbZip *zip);
// The stream stands at the member's data, and `source` is ready to read them: `plain` bytes, not more than its stored ones can
// make. Once they are read, Finish compares their checksum; it passes on a status that is none of success.
PB_NODISCARD pbStatus pbZip_Start(const pbZip *zip, const pbZipMember *member, pbSource *source);
PB_NODISCARD pbStatus pbZip_Finish(const pbZipMember *member, pbSource *source, pbStatus status);

#endif
