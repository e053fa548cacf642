#include "text/unicode_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/unicode_tables.h"

enum { MAX_DECOMPOSED = 32 }; /* the longest decomposition of one code point, U+FDFA, has 18 */

/* No code point below U+0300 changes under NFC, and no ASCII character under any form; 0xCC is the lead byte of
 * U+0300. */
static bool is_normal_already(yk_unicode_form form, const char *text, size_t n_bytes)
{
  unsigned char limit = form == YK_NFC ? 0xCC : 0x80;
  for (size_t i = 0; i < n_bytes; i++)
    if ((unsigned char)text[i] >= limit) return false;
  return true;
}

static uint8_t combining_class(int32_t code_point)
{
  return (uint8_t)utf8proc_get_property(code_point)->combining_class;
}

/* Puts one run of combining marks into canonical order: a stable counting sort by class. utf8proc's own sort is
 * quadratic in the length of the run, which a hostile text can make arbitrarily long. */
static void order_run(int32_t *run, size_t n, int32_t *copy)
{
  size_t begin_of[257] = {0};
  for (size_t i = 0; i < n; i++) begin_of[combining_class(run[i]) + 1]++;
  for (size_t c = 1; c < 257; c++) begin_of[c] += begin_of[c - 1];
  memcpy(copy, run, n * sizeof *run);
  for (size_t i = 0; i < n; i++) run[begin_of[combining_class(copy[i])]++] = copy[i];
}

static void order_marks(int32_t *points, size_t n, int32_t *copy)
{
  for (size_t begin = 0; begin < n;) {
    uint8_t class = combining_class(points[begin]);
    size_t end = begin + 1;
    bool sorted = true;
    while (class != 0 && end < n && combining_class(points[end]) != 0) {
      sorted = sorted && class <= combining_class(points[end]);
      class = combining_class(points[end++]);
    }
    if (!sorted) order_run(points + begin, end - begin, copy);
    begin = end;
  }
}

/* Memory for the code points of one range at a time. */
typedef struct scratch {
  int32_t *points, *copy;
  size_t capacity; /* of each */
} scratch;

static bool reserve(scratch *buffers, size_t n)
{
  if (n <= buffers->capacity) return true;
  size_t capacity = n < 2 * buffers->capacity ? 2 * buffers->capacity : n;
  int32_t *points = realloc(buffers->points, capacity * sizeof *points);
  if (points) buffers->points = points;
  int32_t *copy = realloc(buffers->copy, capacity * sizeof *copy);
  if (copy) buffers->copy = copy;
  if (points && copy) buffers->capacity = capacity;
  return points && copy;
}

/* Decomposes text into code points in buffers->points. False: no memory. */
static bool decompose(const char *text, size_t n_bytes, int options, scratch *buffers, size_t *n)
{
  *n = 0;
  for (size_t at = 0; at < n_bytes;) {
    if (!reserve(buffers, *n + (n_bytes - at) + MAX_DECOMPOSED)) return false;
    uint32_t code_point;
    at += yk_utf8_decode(text + at, n_bytes - at, &code_point);
    int boundary = 0;
    utf8proc_ssize_t length = utf8proc_decompose_char((int32_t)code_point, buffers->points + *n, MAX_DECOMPOSED,
                                                      (utf8proc_option_t)options, &boundary);
    if (length > 0 && length <= MAX_DECOMPOSED) *n += (size_t)length;
  }
  return true;
}

/* Appends the normal form of a range in which normalisation concerns all characters. */
static yk_status normalise(yk_unicode_form form, const char *text, size_t n_bytes, scratch *buffers, yk_strbuf *out,
                           yk_err *err)
{
  if (is_normal_already(form, text, n_bytes)) {
    yk_strbuf_append(out, text, n_bytes);
    return YK_OK;
  }
  bool compose = form == YK_NFC || form == YK_NFKC, compatible = form == YK_NFKC || form == YK_NFKD;
  size_t n;
  if (!decompose(text, n_bytes, UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0), buffers, &n))
    return yk_err_set(err, YK_E_NOMEM, "no memory to normalise %zu bytes", n_bytes);
  order_marks(buffers->points, n, buffers->copy);
  if (compose)
    n = (size_t)utf8proc_normalize_utf32(buffers->points, (utf8proc_ssize_t)n,
                                         (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (size_t i = 0; i < n; i++) {
    char bytes[YK_UTF8_MAX_BYTES];
    yk_strbuf_append(out, bytes, yk_utf8_encode((uint32_t)buffers->points[i], bytes));
  }
  return YK_OK;
}

/* Whether normalisation concerns the character at text; *length: its bytes. */
static bool is_concerned(const char *text, size_t n_bytes, size_t *length)
{
  uint32_t c;
  *length = yk_utf8_decode(text, n_bytes, &c);
  return yk_unicode_normalised_blocks[yk_unicode_normalised_block_of[c / 256]][c / 32 % 8] >> c % 32 & 1;
}

yk_status yk_unicode_form_apply(yk_unicode_form form, const char *text, size_t n_bytes, yk_strbuf *out, yk_err *err)
{
  if (is_normal_already(form, text, n_bytes)) {
    yk_strbuf_append(out, text, n_bytes);
    return YK_OK;
  }
  scratch buffers = {0};
  yk_status status = YK_OK;
  for (size_t begin = 0, end = 0; begin < n_bytes && status == YK_OK; begin = end) {
    size_t length;
    bool concerned = is_concerned(text + begin, n_bytes - begin, &length);
    do end += length;
    while (end < n_bytes && is_concerned(text + end, n_bytes - end, &length) == concerned);
    if (concerned)
      status = normalise(form, text + begin, end - begin, &buffers, out, err);
    else
      yk_strbuf_append(out, text + begin, end - begin);
  }
  free(buffers.points);
  free(buffers.copy);
  return status;
}
