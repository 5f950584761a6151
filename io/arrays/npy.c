// NPY: magic, version, a Python literal that says element type, order and shape, then the elements.
// Tests: tests/unit/test_npz.c.
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "io/arrays/arrays.h"

enum { MOST_HEADER = 65536, MOST_TEXTS = 65536, PIECE = 8192 };

typedef struct Header {
  char kind;  // b i u f U S
  bool swap, fortran;
  size_t width;  // bytes of one element (text: of all of it)
  int ndim;
  size_t shape[PB_ARRAY_DIMS];
} Header;

// ---- the header's literal -----------------------------------------------------------------------------------------

typedef struct Cursor {
  const pbSource *source;
  const char *at, *end;
} Cursor;

static pbStatus bad_header(const Cursor *c, const char *what) { return pbSource_Fail(c->source, "NPY header: %s", what); }

static void skip_space(Cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool take_char(Cursor *c, char what) {
  skip_space(c);
  if (c->at >= c->end || *c->at != what) return false;
  c->at++;
  return true;
}

static bool take_word(Cursor *c, const char *word) {
  size_t n = strlen(word);
  skip_space(c);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
  c->at += n;
  return true;
}

// A quoted text without escapes.
static pbStatus take_text(Cursor *c, char *text, size_t size) {
  skip_space(c);

  char quote = c->at < c->end ? *c->at : 0;
  if (quote != '\'' && quote != '"') return bad_header(c, "expected a quoted text");

  const char *from = ++c->at;
  while (c->at < c->end && *c->at != quote) c->at++;
  if (c->at >= c->end) return bad_header(c, "a quoted text does not end");

  size_t n = (size_t)(c->at++ - from);
  if (n >= size) return bad_header(c, "a quoted text is too long");

  memcpy(text, from, n);
  text[n] = 0;
  return pb_ok;
}

static pbStatus take_shape(Cursor *c, Header *h) {
  if (!take_char(c, '(')) return bad_header(c, "shape is not a tuple");
  while (!take_char(c, ')')) {
    // One count: digits, as many as a size_t holds.
    skip_space(c);
    if (c->at >= c->end || !isdigit((unsigned char)*c->at)) return bad_header(c, "shape holds something that is not a count");

    size_t value = 0;
    while (c->at < c->end && isdigit((unsigned char)*c->at)) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (size_t)(*c->at++ - '0'), &value)) {
        return bad_header(c, "shape holds a count that is too large");
      }
    }
    take_char(c, 'L');  // Python 2 wrote long integers so

    if (h->ndim == PB_ARRAY_DIMS) return bad_header(c, "more than 8 dimensions");
    h->shape[h->ndim++] = value;

    // "(3,)" has a comma behind its one count, "(2, 3)" none behind the last.
    if (take_char(c, ',')) continue;
    if (!take_char(c, ')')) return bad_header(c, "shape does not end");
    break;
  }
  return pb_ok;
}

static bool valid_width(char kind, size_t width) {
  // Texts have any width; one of Unicode is four bytes a character.
  if (kind == 'b') return width == 1;
  if (kind == 'i' || kind == 'u') return width == 1 || width == 2 || width == 4 || width == 8;
  if (kind == 'f') return width == 2 || width == 4 || width == 8;
  return (kind == 'U' && width % 4 == 0) || kind == 'S';
}

static pbStatus parse_type(Cursor *c, const char *text, Header *h) {
  // "<f8": order of bytes, kind, width; without an order it is the machine's.
  char order = text[0];
  const char *p = text + (order && strchr("<>|=", order) ? 1 : 0);

  h->kind = *p;
  if (!*p) return bad_header(c, "no element type");
  if (*p == 'O') return pbSource_Fail(c->source, "holds Python objects (a pickle); those are never read");

  size_t width = 0;
  for (p++; isdigit((unsigned char)*p) && width < (1u << 28); p++) width = 10 * width + (size_t)(*p - '0');
  if (h->kind == 'U') width *= 4;
  if (*p || !strchr("biufUS", h->kind) || !valid_width(h->kind, width)) {
    return pbSource_Fail(c->source, "element type '%.20s' is not supported (numbers: float16/32/64, integers, booleans)", text);
  }

  h->width = width;
  h->swap = order == '>';
  return pb_ok;
}

// One key with its value. *given counts the keys, each in digits of its own.
static pbStatus parse_entry(Cursor *c, Header *h, int *given) {
  char key[24], type[64];
  PB_TRY(take_text(c, key, sizeof key));
  if (!take_char(c, ':')) return bad_header(c, "expected ':'");

  if (strcmp(key, "descr") == 0) {
    if (take_char(c, '[')) return pbSource_Fail(c->source, "structured element types are not supported");
    PB_TRY(take_text(c, type, sizeof type));
    PB_TRY(parse_type(c, type, h));
    *given += 1;
  } else if (strcmp(key, "fortran_order") == 0) {
    h->fortran = take_word(c, "True");
    if (!h->fortran && !take_word(c, "False")) return bad_header(c, "fortran_order is neither True nor False");
    *given += 16;
  } else if (strcmp(key, "shape") == 0) {
    h->ndim = 0;
    PB_TRY(take_shape(c, h));
    *given += 256;
  } else {
    return bad_header(c, "unknown key");
  }

  return pb_ok;
}

static pbStatus parse_header(Cursor *c, Header *h) {
  int given = 0;
  if (!take_char(c, '{')) return bad_header(c, "expected '{'");

  // A comma may follow the last entry, as Python writes it.
  while (!take_char(c, '}')) {
    PB_TRY(parse_entry(c, h, &given));
    if (take_char(c, ',')) continue;
    if (!take_char(c, '}')) return bad_header(c, "expected '}'");
    break;
  }

  // Padding up to the data.
  skip_space(c);
  if (c->at != c->end) return bad_header(c, "something follows the '}'");
  return given == 1 + 16 + 256 ? pb_ok : bad_header(c, "expected each of descr, fortran_order and shape once");
}

static pbStatus read_header(pbSource *source, char *text, Header *h) {
  unsigned char start[12];
  PB_TRY(pbSource_Read(source, start, 8));

  if (memcmp(start, "\x93NUMPY", 6) != 0) return pbSource_Fail(source, "is not an NPY array");
  if (start[6] < 1 || start[6] > 3) return pbSource_Fail(source, "NPY version %d.%d is not supported", start[6], start[7]);

  // The length of the header has two bytes in version 1, four later.
  size_t bytes = start[6] == 1 ? 2 : 4;
  size_t length = 0;
  PB_TRY(pbSource_Read(source, start + 8, bytes));
  for (size_t i = 0; i < bytes; i++) length |= (size_t)start[8 + i] << (8 * i);

  if (length > MOST_HEADER || length > source->plain) return pbSource_Fail(source, "NPY header of %zu bytes", length);

  // Printable characters and white space: what it says goes into messages.
  PB_TRY(pbSource_Read(source, text, length));
  for (size_t i = 0; i < length; i++) {
    if (((unsigned char)text[i] < 32 && !isspace((unsigned char)text[i])) || (unsigned char)text[i] > 126) {
      return pbSource_Fail(source, "NPY header: holds something that is not text");
    }
  }

  Cursor c = {.source = source, .at = text, .end = text + length};
  return parse_header(&c, h);
}

// ---- elements -----------------------------------------------------------------------------------------------------

// IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 bits of mantissa; exponent 0 is subnormal.
static double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31;
  int mantissa = bits & 1023;
  double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) value = mantissa ? NAN : INFINITY;
  return bits >> 15 ? -value : value;
}

// One element of at most 8 bytes; *exact turns false where a double cannot hold it.
static double element_value(const Header *h, const unsigned char *bytes, bool *exact) {
  // The bits of the element, its lowest byte first.
  uint64_t bits = 0;
  for (size_t i = 0; i < h->width; i++) bits |= (uint64_t)bytes[h->swap ? h->width - 1 - i : i] << (8 * i);
  if (h->kind == 'b') return bits != 0;

  // Reals of 8, 4 and 2 bytes.
  if (h->kind == 'f' && h->width == 8) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  if (h->kind == 'f' && h->width == 4) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
  }
  if (h->kind == 'f') return half_value((uint16_t)bits);

  // Integers: the size of a negative one is its two's complement.
  bool negative = h->kind == 'i' && bits >> (8 * h->width - 1) & 1;
  if (negative && h->width < 8) bits |= ~(uint64_t)0 << (8 * h->width);
  uint64_t size = negative ? ~bits + 1 : bits;

  // Beyond 2^53 only some integers are doubles.
  double value = (double)size;
  if (size > (uint64_t)1 << 53 && (value >= 0x1p64 || (uint64_t)value != size)) *exact = false;

  return negative ? -value : value;
}

// Steps through row-major positions in the order of the file.
typedef struct Walk {
  size_t at, index[PB_ARRAY_DIMS], stride[PB_ARRAY_DIMS];
} Walk;

static void start_walk(const Header *h, Walk *walk) {
  // Strides of the array in memory, which is row-major.
  *walk = (Walk){0};
  size_t stride = 1;
  for (int d = h->ndim - 1; d >= 0; d--) {
    walk->stride[d] = stride;
    stride *= h->shape[d];
  }
}

static void advance_walk(const Header *h, Walk *walk) {
  if (!h->fortran) {
    walk->at++;
    return;
  }

  // In Fortran order the first index runs fastest.
  for (int d = 0; d < h->ndim; d++) {
    walk->at += walk->stride[d];
    if (++walk->index[d] < h->shape[d]) return;
    walk->at -= walk->stride[d] * h->shape[d];
    walk->index[d] = 0;
  }
}

static pbStatus read_numbers(pbSource *source, const Header *h, pbArray *array) {
  PB_ASSERT(h->width > 0 && h->width <= 8);
  unsigned char buffer[PIECE];
  Walk walk;
  start_walk(h, &walk);

  bool exact = true;
  size_t most = PIECE / h->width;
  for (size_t done = 0; done < array->count;) {
    // As many whole elements as the buffer holds.
    size_t n = array->count - done < most ? array->count - done : most;
    PB_TRY(pbSource_Read(source, buffer, n * h->width));
    for (size_t i = 0; i < n; i++, advance_walk(h, &walk)) {
      PB_ASSERT(walk.at < array->count);
      array->reals[walk.at] = element_value(h, buffer + i * h->width, &exact);
    }
    done += n;
  }

  return exact ? pb_ok : pbSource_Fail(source, "holds integers beyond 2^53, which doubles do not");
}

static size_t put_utf8(uint32_t code, char *out) {
  // One byte holds 7 bits; in more, the first says how many there are, and each other one holds 6.
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xE0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 63));
    out[2] = (char)(0x80 | (code & 63));
    return 3;
  }

  out[0] = (char)(0xF0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 63));
  out[2] = (char)(0x80 | (code >> 6 & 63));
  out[3] = (char)(0x80 | (code & 63));
  return 4;
}

// Texts of fixed width, padded with zeros; stored one after another with a zero behind each.
static pbStatus read_texts(pbSource *source, const Header *h, pbArray *array) {
  size_t unit = h->kind == 'U' ? 4 : 1;
  char *out = array->text;
  for (size_t k = 0; k < array->count; k++) {
    for (size_t i = 0; i < h->width; i += unit) {
      // A character: a code point in either order of bytes (U), or a byte as it is (S).
      unsigned char b[4] = {0};
      PB_TRY(pbSource_Read(source, b, unit));
      uint32_t code = b[0];
      if (unit == 4)
        code = h->swap ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
                       : (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];

      // Surrogates are no characters.
      if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return pbSource_Fail(source, "holds a text that is not Unicode");
      if (code && unit == 1) *out++ = (char)code;
      if (code && unit == 4) out += put_utf8(code, out);
    }

    *out++ = 0;
  }
  return pb_ok;
}

// Number of elements and their bytes in the file, which must be there.
static pbStatus count_elements(const pbSource *source, const Header *h, size_t *count) {
  // An array without elements may have any other counts, as NumPy allows.
  *count = 1;
  bool none = false;
  for (int d = 0; d < h->ndim; d++) none = none || h->shape[d] == 0;
  if (none) *count = 0;

  bool fits = true;
  for (int d = 0; d < h->ndim; d++) fits = none || (fits && !__builtin_mul_overflow(*count, h->shape[d], count));

  size_t bytes = 0;
  fits = fits && !__builtin_mul_overflow(*count, h->width, &bytes);
  if (fits && bytes <= source->plain) return pb_ok;
  return pbSource_Fail(source, "shape %s needs more bytes than there are",
                       pbArray_ShapeText(h->ndim, h->shape, (char[200]){0}, 200));
}

pbStatus pbNpy_Read(pbSource *source, const char *name, pbArrays *set) {
  char *text = pbContext_Alloc(source->ctx, MOST_HEADER);
  if (!text) return pbContext_Fail(source->ctx, pb_no_memory, "%s: out of memory", source->file);

  Header h = {0};
  pbStatus status = read_header(source, text, &h);
  pbContext_Free(source->ctx, text);

  PB_TRY(status);
  size_t count = 0;
  PB_TRY(count_elements(source, &h, &count));

  bool is_text = h.kind == 'U' || h.kind == 'S';
  if (is_text && h.fortran && h.ndim > 1) return pbSource_Fail(source, "texts in Fortran order are not supported");
  if (is_text && count > MOST_TEXTS) return pbSource_Fail(source, "more than %d texts", MOST_TEXTS);

  // Elements of at most 8 bytes become 8 bytes; texts gain a zero each.
  size_t held = 0;
  if (__builtin_mul_overflow(count, is_text ? h.width + 1 : 8, &held)) held = SIZE_MAX;

  pbArray *array = NULL;
  status = pbArrays_Room(set, name, is_text ? pb_arrayText : pb_arrayReal, h.ndim, h.shape, held, &array);
  if (status != pb_ok) {
    return pbContext_Fail(source->ctx, status == pb_no_memory ? status : pb_bad_input, "%s: %s", source->file,
                          pbContext_Error(source->ctx));
  }

  array->count = count;
  return is_text ? read_texts(source, &h, array) : read_numbers(source, &h, array);
}

// ---- writing ------------------------------------------------------------------------------------------------------

// Bytes that follow the first one of a character in UTF-8, by the bits it begins with.
static int count_followers(unsigned char first) {
  if (first >= 0xF0) return 3;
  if (first >= 0xE0) return 2;
  return first >= 0xC0 ? 1 : 0;
}

// Next code point of a UTF-8 text that is not at its end; a byte that does not fit stands for itself.
static uint32_t take_utf8(const char *text, size_t *at) {
  static const unsigned first_bits[] = {255, 31, 15, 7};  // those of the first byte that belong to the code point
  const unsigned char *b = (const unsigned char *)text + *at;
  int more = count_followers(b[0]);
  for (int i = 1; i <= more; i++) {
    if ((b[i] & 0xC0) != 0x80) more = 0;
  }

  // Six bits from each byte that follows.
  uint32_t code = b[0] & first_bits[more];
  for (int i = 1; i <= more; i++) code = code << 6 | (b[i] & 63u);
  *at += (size_t)more + 1;

  return code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000) ? code : 0xFFFD;
}

static size_t text_length(const char *text) {
  size_t n = 0;
  for (size_t at = 0; text[at]; n++) take_utf8(text, &at);

  // NumPy has no texts of width zero.
  return n ? n : 1;
}

size_t pbNpy_Header(const pbArray *array, char *text) {
  char shape[24 * PB_ARRAY_DIMS + 8], type[32] = "<f8";

  pbArray_ShapeText(array->ndim, array->shape, shape, sizeof shape);
  if (array->type == pb_arrayInt) strcpy(type, "<i4");
  if (array->type == pb_arrayText) snprintf(type, sizeof type, "<U%zu", text_length(array->text));

  // Magic, version 1.0, and from byte 10 on the header, padded so that the data begin at a multiple of 64, after a line end.
  memcpy(text, "\x93NUMPY\1\0", 8);
  int n = snprintf(text + 10, PB_NPY_HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
  size_t length = 10 + (size_t)n;
  size_t whole = (length + 1 + 63) / 64 * 64;
  PB_ASSERT(whole <= PB_NPY_HEADER);
  memset(text + length, ' ', whole - length);
  text[whole - 1] = '\n';

  // The length of the header, the lower byte first.
  text[8] = (char)((whole - 10) & 255);
  text[9] = (char)((whole - 10) >> 8);

  return whole;
}

static void put_bytes(uint64_t bits, int n, unsigned char *out) {
  for (int i = 0; i < n; i++) out[i] = (unsigned char)(bits >> (8 * i));
}

static size_t text_piece(const char *text, size_t *next, size_t *at, unsigned char *buffer, size_t size) {
  size_t used = 0;

  // An empty text is one zero.
  if (!text[0] && *next == 0) {
    put_bytes(0, 4, buffer);
    used = 4;
  }
  for (; text[*at] && used + 4 <= size; used += 4) put_bytes(take_utf8(text, at), 4, buffer + used);

  *next += used / 4;
  return used;
}

size_t pbNpy_Piece(const pbArray *array, size_t *next, size_t *text_at, unsigned char *buffer, size_t size) {
  if (array->type == pb_arrayText) return text_piece(array->text, next, text_at, buffer, size);

  size_t width = array->type == pb_arrayReal ? sizeof *array->reals : sizeof *array->integers;
  size_t n = array->count - *next < size / width ? array->count - *next : size / width;

  for (size_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    if (array->type == pb_arrayReal) memcpy(&bits, &array->reals[*next + i], sizeof bits);
    if (array->type == pb_arrayInt) bits = (uint32_t)array->integers[*next + i];
    put_bytes(bits, (int)width, buffer + i * width);
  }

  *next += n;
  return n * width;
}
