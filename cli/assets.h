// Files that travel inside the program (cmake/embed.cmake). Texts with a closing zero; empty (size 1) where the file was not
// there when the program was built.
#ifndef PB_ASSETS_H
#define PB_ASSETS_H

#include <stdint.h>

extern const char pb_asset_three_js[];         // three.js, minified, from Debian's libjs-three
extern const uint64_t pb_asset_three_js_size;  // with the closing zero

#endif
