// Streams of stdio over a descriptor that go on where a signal interrupted them, and keep why they failed: stdio itself forgets
// the reason between the write that failed and the call that asks.
#ifndef PB_IO_STREAM_H
#define PB_IO_STREAM_H

#include <stdio.h>

// Where a stream for writing leads. It stays where it is as long as the stream is open.
typedef struct pbSink {
  int fd;
  int error;  // errno of the first write that failed; 0: none did
} pbSink;

// Both close the descriptor with the stream, and leave it alone where they return NULL (errno says why).
FILE *pbStream_Reader(int fd);
FILE *pbStream_Writer(pbSink *sink);

#endif
