// Streams over descriptors: interrupted calls are made again, the first error is kept. Elsewhere than on Linux, where stdio
// has no such streams, they are the plain ones.
// Tests: tests/world/failing_world.py, tests/unit/test_npz.c.
#include "io/stream.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#ifdef __linux__
static int fd_of(void *cookie) { return (int)(intptr_t)cookie; }

static ssize_t take(void *cookie, char *to, size_t size) {
  ssize_t got;

  // A signal that came before anything was read.
  while ((got = read(fd_of(cookie), to, size)) < 0 && errno == EINTR) continue;

  return got;
}

static int seek(void *cookie, off_t *offset, int from) {
  off_t at = lseek(fd_of(cookie), *offset, from);
  if (at < 0) return -1;

  *offset = at;
  return 0;
}

static int end_reading(void *cookie) { return close(fd_of(cookie)); }

// All of it, or less and the reason in the sink. stdio takes 0 for a failure.
static ssize_t put(void *cookie, const char *from, size_t size) {
  pbSink *sink = cookie;
  size_t done = 0;

  while (done < size) {
    ssize_t wrote = write(sink->fd, from + done, size - done);

    // Part of it is no failure.
    if (wrote > 0) {
      done += (size_t)wrote;
    } else if (errno != EINTR) {
      if (!sink->error) sink->error = errno;
      break;
    }
  }
  return (ssize_t)done;
}

// A file system may say only now that it has no room.
static int end_writing(void *cookie) {
  pbSink *sink = cookie;
  if (close(sink->fd) == 0) return 0;

  if (!sink->error) sink->error = errno;
  return -1;
}

FILE *pbStream_Reader(int fd) {
  // The descriptor itself is all that is needed.
  cookie_io_functions_t calls = {.read = take, .seek = seek, .close = end_reading};

  return fopencookie((void *)(intptr_t)fd, "rb", calls);
}

FILE *pbStream_Writer(pbSink *sink) {
  cookie_io_functions_t calls = {.write = put, .close = end_writing};

  return fopencookie(sink, "wb", calls);
}
#else
FILE *pbStream_Reader(int fd) { return fdopen(fd, "rb"); }
FILE *pbStream_Writer(pbSink *sink) { return fdopen(sink->fd, "wb"); }
#endif
