// Text that MuJoCo's reader takes for XML, and XML's rules do not, to XML: what is wrong is covered with blanks or written as XML
// has it, so that lines stay and columns can be told.
// Tests: tests/unit/test_mjcf.c, tests/oracle/test_files.py.
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/xml/xml_repair.h"

// What is amiss, in the words of the warning.
typedef enum fault {
  fault_comment,
  fault_blank,
  fault_ampersand,
  fault_less,
  fault_control,
  fault_encoding,
  fault_declaration,
  fault_name,
  fault_end,
  fault_bracket,
  fault_before,
  fault_after,
  fault_zero,
  fault_count
} fault;

static const char *const fault_words[fault_count] = {
    [fault_comment] = "a comment with '--' in it",
    [fault_blank] = "no blank before an attribute",
    [fault_ampersand] = "'&' that begins no known entity (write '&amp;')",
    [fault_less] = "'<' in the value of an attribute (write '&lt;')",
    [fault_control] = "a control character",
    [fault_encoding] = "bytes that are not UTF-8, read as Latin-1",
    [fault_declaration] = "an XML declaration that is left out",
    [fault_name] = "a blank between '<' and a name",
    [fault_end] = "an end tag with more than its name",
    [fault_bracket] = "']]>' in text",
    [fault_before] = "text before the root element",
    [fault_after] = "something after the root element, which is left out",
    [fault_zero] = "a zero byte, at which the text ends",
};

typedef struct mender {
  pbContext *ctx;
  const char *at, *end;  // of the text that is read
  char *out;
  size_t length, room;
  int line, column;  // where the output is
  int depth;         // elements that are open
  bool begun;        // the root element was there
  bool declared;     // a declaration at the start was left out, for all that it may be right
  int count[fault_count], lines[fault_count], columns[fault_count];  // how often; the first place
  pbXmlRepair *result;
  pbStatus status;
} mender;

// ---- output ---------------------------------------------------------------------------------------------------------
static void give_up(mender *r, pbStatus status) {
  if (r->status == pb_ok) r->status = status;

  r->at = r->end;
}

static void put(mender *r, char c) {
  PB_ASSERT(r->length <= r->room);

  // Room for what comes, twice as much each time.
  if (r->length == r->room) {
    size_t room = 2 * r->room + 4096;
    char *more = pbContext_Resize(r->ctx, r->out, room);

    if (!more) {
      give_up(r, pb_no_memory);
      return;
    }

    r->out = more;
    r->room = room;
  }

  r->out[r->length++] = c;

  // Columns count characters, as the parser's do: bytes that continue one do not begin another.
  if (c == '\n') {
    r->line++;
    r->column = 1;
  } else if (((unsigned char)c & 0xC0) != 0x80) {
    r->column++;
  }
}

static void note(mender *r, fault f) {
  PB_ASSERT(f < fault_count);
  if (r->count[f]++) return;

  // Where the first of them is in the file.
  r->lines[f] = r->line;
  r->columns[f] = r->column - pbXmlRepair_Shift(r->result, r->line, r->column);
}

// Characters that the file does not have: what stands behind them in the line was further left there.
static void insert(mender *r, fault f, const char *text) {
  note(r, f);
  if (r->result->count == PB_XML_REPAIRS) {
    give_up(r, pb_bad_input);
    return;
  }

  // The list grows by pieces.
  if (r->result->count % 1024 == 0) {
    size_t bytes = ((size_t)r->result->count + 1024) * sizeof *r->result->inserted;
    pbXmlInsert *more = pbContext_Resize(r->ctx, r->result->inserted, bytes);

    if (!more) {
      give_up(r, pb_no_memory);
      return;
    }

    r->result->inserted = more;
  }

  r->result->inserted[r->result->count++] = (pbXmlInsert){r->line, r->column, (int)strlen(text)};
  while (*text) put(r, *text++);
}

// ---- input ----------------------------------------------------------------------------------------------------------
static bool starts(const mender *r, const char *text) {
  size_t n = strlen(text);

  return (size_t)(r->end - r->at) >= n && !memcmp(r->at, text, n);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Bytes of the UTF-8 character at the input; 0: it is none.
static int utf8_length(const mender *r) {
  unsigned char c = (unsigned char)*r->at;
  int n = 0;

  // The first byte says how many there are.
  if (c >= 0xC2) n = 2;
  if (c >= 0xE0) n = 3;
  if (c >= 0xF0) n = c < 0xF5 ? 4 : 0;
  if (r->end - r->at < n) return 0;

  // Those that continue it.
  for (int i = 1; i < n; i++) {
    if (((unsigned char)r->at[i] & 0xC0) != 0x80) return 0;
  }

  // Longer than need be, surrogates, and beyond the last code point.
  unsigned char next = n > 1 ? (unsigned char)r->at[1] : 0;
  bool bad = (c == 0xE0 && next < 0xA0) || (c == 0xED && next > 0x9F) || (c == 0xF0 && next < 0x90) || (c == 0xF4 && next > 0x8F);
  return bad ? 0 : n;
}

// One character, as it is where XML allows it.
static void take(mender *r) {
  PB_ASSERT(r->at < r->end);
  unsigned char c = (unsigned char)*r->at;
  if (c >= 0x80) {
    int n = utf8_length(r);
    for (int i = 0; i < n; i++) put(r, *r->at++);
    if (n) return;

    // A code point below 256, as Latin-1 has it.
    note(r, fault_encoding);
    put(r, (char)(0xC0 | c >> 6));
    put(r, (char)(0x80 | (c & 0x3F)));
  } else if (c < 0x20 && !is_blank((char)c)) {
    note(r, fault_control);
    put(r, ' ');
  } else {
    put(r, (char)c);
  }

  if (r->at < r->end) r->at++;
}

// Blanks instead of the next n bytes, but for the ends of lines.
static void cover(mender *r, size_t n) {
  for (; n && r->at < r->end; n--) {
    char c = *r->at++;

    if (((unsigned char)c & 0xC0) != 0x80) put(r, is_blank(c) ? c : ' ');
  }
}

// How far it is until behind the text; to the end where it does not come.
static size_t distance_behind(const mender *r, const char *text) {
  size_t left = (size_t)(r->end - r->at);

  const char *found = left ? memmem(r->at, left, text, strlen(text)) : NULL;
  return found ? (size_t)(found - r->at) + strlen(text) : left;
}

static void take_bytes(mender *r, size_t n) {
  for (const char *stop = r->at + n; r->at < stop;) take(r);
}

// '&' as it is where an entity follows that XML knows.
static void take_ampersand(mender *r) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (starts(r, known[i])) {
      take_bytes(r, strlen(known[i]));
      return;
    }
  }

  // A number of a character, decimal or not, that XML allows; others are rare enough to be taken as text.
  bool hex = starts(r, "&#x");
  const char *digits = r->at + (hex ? 3 : 2), *stop = digits;
  while (stop < r->end && stop - digits < 4 && strchr(hex ? "0123456789abcdefABCDEF" : "0123456789", *stop) && *stop) stop++;
  if (starts(r, "&#") && stop - digits >= 2 && stop < r->end && *stop == ';') {
    take_bytes(r, (size_t)(stop + 1 - r->at));
    return;
  }

  insert(r, fault_ampersand, "&amp;");
  if (r->at < r->end) r->at++;

  // One of the five stood in the file.
  if (r->result->count) r->result->inserted[r->result->count - 1].length = 4;
}

// ---- pieces of a file -----------------------------------------------------------------------------------------------
static void take_comment(mender *r) {
  size_t n = distance_behind(r, "-->");
  const char *inside = r->at + 4;
  size_t length = n >= 7 ? n - 7 : 0;

  // Two dashes inside, or one before the end.
  bool dashes = length && (memmem(inside, length, "--", 2) || inside[length - 1] == '-');
  if (dashes) {
    note(r, fault_comment);
    cover(r, n);
  } else {
    take_bytes(r, n);
  }
}

// The encoding is taken to be UTF-8 whatever it says.
static void take_declaration(mender *r, const char *text) {
  if (r->at == text) r->declared = true;
  else note(r, fault_declaration);

  cover(r, distance_behind(r, "?>"));
}

static void take_value(mender *r) {
  char quote = *r->at;

  take(r);

  while (r->at < r->end && *r->at != quote) {
    if (*r->at == '&') {
      take_ampersand(r);
    } else if (*r->at == '<') {
      insert(r, fault_less, "&lt;");

      // One of the four stood in the file.
      if (r->at < r->end) r->at++;
      if (r->result->count) r->result->inserted[r->result->count - 1].length = 3;
    } else {
      take(r);
    }
  }

  // Another attribute begins at once.
  if (r->at >= r->end) return;
  take(r);
  if (r->at < r->end && !is_blank(*r->at) && !strchr("/>?", *r->at)) insert(r, fault_blank, " ");
}

// Blanks between '<' and what follows go before it.
static void take_bracket(mender *r) {
  const char *name = r->at + 1;
  while (name < r->end && is_blank(*name)) name++;

  if (name > r->at + 1) {
    note(r, fault_name);
    cover(r, (size_t)(name - r->at - 1));
  }

  put(r, '<');
  r->at = name;
}

static void take_end_tag(mender *r) {
  while (r->at < r->end && *r->at != '>' && !is_blank(*r->at)) take(r);

  // Nothing but blanks may follow the name.
  size_t n = distance_behind(r, ">");
  const char *stop = r->at + (n ? n - 1 : 0);

  for (const char *c = r->at; c < stop; c++) {
    if (is_blank(*c)) continue;
    note(r, fault_end);
    break;
  }

  cover(r, (size_t)(stop - r->at));
  if (r->at < r->end) take(r);
  r->depth--;
}

static void take_start_tag(mender *r) {
  r->begun = true;

  while (r->at < r->end && *r->at != '>') {
    if (*r->at == '"' || *r->at == '\'') take_value(r);
    else take(r);
  }

  if (r->at >= r->end) return;

  if (r->at[-1] != '/') r->depth++;
  take(r);
}

static void take_text(mender *r) {
  if (starts(r, "]]>")) {
    note(r, fault_bracket);
    cover(r, 3);
  } else if (*r->at == '&' && r->depth) {
    take_ampersand(r);
  } else if (!r->begun && !is_blank(*r->at)) {
    note(r, fault_before);
    cover(r, 1);
  } else {
    take(r);
  }
}

static void take_markup(mender *r, const char *text) {
  if (starts(r, "<!--")) {
    take_comment(r);
  } else if (starts(r, "<![CDATA[")) {
    take_bytes(r, distance_behind(r, "]]>"));
  } else if (starts(r, "<?")) {
    take_declaration(r, text);
  } else if (starts(r, "<!")) {
    take_bytes(r, distance_behind(r, ">"));
  } else if (r->begun && !r->depth) {
    note(r, fault_after);  // of several roots the first counts
    cover(r, (size_t)(r->end - r->at));
  } else {
    take_bracket(r);
    if (r->at < r->end && *r->at == '/') take_end_tag(r);
    else take_start_tag(r);
  }
}

// ---- a file ---------------------------------------------------------------------------------------------------------
int pbXmlRepair_Shift(const pbXmlRepair *repair, int line, int column) {
  // The last of them that is before the place.
  int low = 0, high = repair->count;
  while (low < high) {
    int middle = (low + high) / 2;
    const pbXmlInsert *i = &repair->inserted[middle];

    if (i->line < line || (i->line == line && i->column < column)) low = middle + 1;
    else high = middle;
  }

  // All of them in the same line.
  int shift = 0;
  for (; low > 0 && repair->inserted[low - 1].line == line; low--) shift += repair->inserted[low - 1].length;
  return shift;
}

static void warn(const mender *r, const char *name) {
  for (int f = 0; f < fault_count; f++) {
    if (!r->count[f]) continue;

    char more[32] = "";

    if (r->count[f] > 1) snprintf(more, sizeof more, ", %d times in all", r->count[f]);
    pbContext_Warn(r->ctx, "%.400s:%d:%d: not well-formed XML: %s%s; read as MuJoCo does", name, r->lines[f], r->columns[f],
                   fault_words[f], more);
  }
}

pbStatus pbXmlRepair_Text(pbContext *ctx, const char *text, size_t length, const char *name, pbXmlRepair *result) {
  *result = (pbXmlRepair){0};

  mender r = {.ctx = ctx, .at = text, .end = text + length, .line = 1, .column = 1, .result = result};

  // A text ends at a zero; the mark that begins some files stays.
  const char *zero = length ? memchr(text, 0, length) : NULL;
  if (zero) r.end = zero;

  if (starts(&r, "\xEF\xBB\xBF")) r.at = text += 3;

  while (r.at < r.end) {
    if (*r.at == '<') take_markup(&r, text);
    else take_text(&r);
  }

  if (zero) note(&r, fault_zero);

  result->text = r.out;
  result->length = r.length;

  if (r.status == pb_no_memory) return pbContext_Fail(ctx, pb_no_memory, "%.400s: no memory to read it", name);
  if (r.status != pb_ok)
    return pbContext_Fail(ctx, r.status, "%.400s: not well-formed XML in more than %d places", name, PB_XML_REPAIRS);

  // Without an element it is no XML at all.
  if (!r.begun) return pb_ok;

  for (int f = 0; f < fault_count; f++) result->faults += r.count[f];

  // A declaration is all that there was to complain of.
  if (!result->faults && r.declared) {
    r.count[fault_declaration] = r.lines[fault_declaration] = r.columns[fault_declaration] = result->faults = 1;
  }
  warn(&r, name);
  return pb_ok;
}

void pbXmlRepair_Free(pbContext *ctx, pbXmlRepair *repair) {
  pbContext_Free(ctx, repair->text);
  pbContext_Free(ctx, repair->inserted);

  *repair = (pbXmlRepair){0};
}
