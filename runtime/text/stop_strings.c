#define _GNU_SOURCE /* memmem */
#include "text/stop_strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

typedef struct stop {
  char *text;
  size_t n_bytes;
} stop;

struct yk_stop_strings {
  stop *stops;
  size_t n;
  bool includes;
  const stop *found; /* the string that ended the text */
  yk_strbuf held;    /* text not returned yet: between calls shorter than the longest stop string */
};

void yk_stop_strings_free(yk_stop_strings *stops)
{
  if (!stops) return;
  for (size_t i = 0; i < stops->n; i++) free(stops->stops[i].text);
  free(stops->stops);
  yk_strbuf_free(&stops->held);
  free(stops);
}

static yk_status check_string(size_t index, const char *string, yk_err *err)
{
  if (!string || !string[0])
    return yk_err_set(err, YK_E_INVAL, "stop string %zu: expected at least one character, found none", index);
  size_t n_valid = yk_utf8_valid_bytes(string, strlen(string));
  if (string[n_valid])
    return yk_err_set(err, YK_E_INVAL, "stop string %zu: expected UTF-8, found byte 0x%02X at offset %zu", index,
                      (unsigned char)string[n_valid], n_valid);
  return YK_OK;
}

yk_status yk_stop_strings_create(const char *const *strings, size_t n, yk_stop_strings **out, yk_err *err)
{
  for (size_t i = 0; i < n; i++) YK_TRY(check_string(i, strings[i], err));
  yk_stop_strings *s = calloc(1, sizeof *s);
  if (s) s->stops = calloc(n ? n : 1, sizeof *s->stops);
  bool ok = s && s->stops;
  for (size_t i = 0; ok && i < n; i++) {
    s->stops[i] = (stop){strdup(strings[i]), strlen(strings[i])};
    s->n = i + 1;
    ok = s->stops[i].text != NULL;
  }
  if (!ok) {
    yk_stop_strings_free(s);
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu stop strings", n);
  }
  *out = s;
  return YK_OK;
}

void yk_stop_strings_include(yk_stop_strings *stops)
{
  stops->includes = true;
}

const char *yk_stop_strings_found(const yk_stop_strings *stops)
{
  return stops->found ? stops->found->text : NULL;
}

/* Finds the stop string that is complete first in held. Returns the number of bytes before it. */
static size_t find_first(yk_stop_strings *s)
{
  size_t before = s->held.length, first_end = s->held.length + 1;
  for (size_t i = 0; i < s->n; i++) {
    const stop *it = &s->stops[i];
    const char *at = memmem(s->held.data, s->held.length, it->text, it->n_bytes);
    if (!at || (size_t)(at - s->held.data) + it->n_bytes >= first_end) continue;
    before = (size_t)(at - s->held.data);
    first_end = before + it->n_bytes;
    s->found = it;
  }
  return before;
}

/* Number of bytes at the end of held that may be the beginning of a stop string. */
static size_t possible_beginning(const yk_stop_strings *s)
{
  size_t longest = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t n = s->stops[i].n_bytes - 1 < s->held.length ? s->stops[i].n_bytes - 1 : s->held.length;
    while (n > longest && memcmp(s->held.data + s->held.length - n, s->stops[i].text, n) != 0) n--;
    if (n > longest) longest = n;
  }
  return longest;
}

static void give(yk_stop_strings *s, size_t n_bytes, yk_strbuf *out)
{
  yk_strbuf_append(out, s->held.data, n_bytes);
  s->held.length -= n_bytes;
  if (n_bytes) memmove(s->held.data, s->held.data + n_bytes, s->held.length);
}

bool yk_stop_strings_push(yk_stop_strings *stops, const char *text, size_t n_bytes, bool armed, yk_strbuf *out)
{
  yk_strbuf_append(&stops->held, text, n_bytes);
  if (stops->held.failed) out->failed = true;
  if (!stops->held.length) return false;
  if (!armed) {
    give(stops, stops->held.length, out);
    return false;
  }
  size_t before = find_first(stops);
  if (stops->found) {
    give(stops, before + (stops->includes ? stops->found->n_bytes : 0), out);
    yk_strbuf_clear(&stops->held);
    return true;
  }
  give(stops, stops->held.length - possible_beginning(stops), out);
  return false;
}

void yk_stop_strings_flush(yk_stop_strings *stops, yk_strbuf *out)
{
  if (stops->held.length) give(stops, stops->held.length, out);
}
