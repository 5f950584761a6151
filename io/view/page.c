// Pages filled in: parts in the place of their marks, names as text.
// Tests: tests/unit/test_pages.c, tests/oracle/test_view.py.
#include "io/view/page.h"

#include <string.h>

#include "io/file.h"

const char *pbPage_Name(const char *path) {
  const char *called = pbFile_Called(path), *slash = strrchr(called, '/');
  return slash ? slash + 1 : called;
}

void pbPage_PutText(const char *text, FILE *out) {
  for (; *text; text++) {
    switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      default: fputc(*text, out);
    }
  }
}

// Whether a text begins with {{mark}}.
static bool is_mark(const char *at, const char *mark) {
  size_t length = strlen(mark);
  return strncmp(at + 2, mark, length) == 0 && strncmp(at + 2 + length, "}}", 2) == 0;
}

static const pbPagePart *part_at(const char *at, const pbPagePart *part, size_t parts) {
  for (size_t i = 0; i < parts; i++) {
    if (is_mark(at, part[i].mark)) return &part[i];
  }
  return NULL;
}

pbStatus pbPage_Fill(const char *page, const pbPagePart *part, size_t parts, pbPageData *put_data, const void *user, FILE *out) {
  for (const char *at = page; *at;) {
    const char *mark = strstr(at, "{{");
    if (!mark) mark = at + strlen(at);
    fwrite(at, 1, (size_t)(mark - at), out);
    at = mark;
    if (!*at) break;

    const pbPagePart *found = part_at(at, part, parts);
    if (found) {
      if (found->put) found->put(found->text, out);
      else fputs(found->text, out);
      at += strlen(found->mark) + 4;
    } else if (is_mark(at, "data")) {
      PB_TRY(put_data(user, out));
      at += strlen("{{data}}");
    } else {
      // braces of the page's own
      fwrite(at, 1, 2, out);
      at += 2;
    }
  }
  return pb_ok;
}
