// What would ask for a younger C library than 2.34, so that a wheel runs on systems older than the one it was built on. The
// linker sends the calls here (--wrap). PB_OLDEST_GLIBC (python/CMakeLists.txt): the version that this processor's began with.
// Tests: tests/python/test_package.py.
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

// 2.35 gave hypot a new version; the one before is the same algorithm, and sets errno.
double hypot_before(double x, double y);
double __wrap_hypot(double x, double y);

__asm__(".symver hypot_before,hypot@" PB_OLDEST_GLIBC);

double __wrap_hypot(double x, double y) { return hypot_before(x, y); }

// 2.36 brought arc4random_buf, from which expat, where its archive is linked, seeds its hashes.
void __wrap_arc4random_buf(void *bytes, size_t count);

void __wrap_arc4random_buf(void *bytes, size_t count) {
  if (getentropy(bytes, count) != 0) abort();
}
