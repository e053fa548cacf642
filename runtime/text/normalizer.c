#include "text/normalizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/component.h"
#include "text/unicode_form.h"

static const char *const SUPPORTED = "NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence";

typedef struct yk_normalizer_step {
  enum { STEP_FORM, STEP_PREPEND, STEP_REPLACE } kind;
  yk_unicode_form form; /* STEP_FORM */
  yk_regex *pattern;    /* STEP_REPLACE */
  char *text;           /* STEP_PREPEND: text to prepend; STEP_REPLACE: replacement */
  size_t text_bytes;
} step;

static yk_status parse_step(step *out, const char *file, yk_json value, const char *type, yk_err *err)
{
  static const char *const FORMS[] = {[YK_NFC] = "NFC", [YK_NFD] = "NFD", [YK_NFKC] = "NFKC", [YK_NFKD] = "NFKD"};
  for (size_t form = 0; form < sizeof FORMS / sizeof *FORMS; form++)
    if (strcmp(type, FORMS[form]) == 0) {
      out->kind = STEP_FORM;
      out->form = (yk_unicode_form)form;
      return YK_OK;
    }
  const char *key;
  if (strcmp(type, "Prepend") == 0) {
    out->kind = STEP_PREPEND;
    key = "prepend";
  } else if (strcmp(type, "Replace") == 0) {
    out->kind = STEP_REPLACE;
    key = "content";
    YK_TRY(yk_component_pattern(file, value, &out->pattern, err));
  } else {
    return yk_component_unsupported(file, "normalizer", type, SUPPORTED, err);
  }
  const char *text;
  YK_TRY(yk_component_text(file, value, key, &text, &out->text_bytes, err));
  out->text = malloc(out->text_bytes + 1);
  if (!out->text) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a normalizer", file);
  memcpy(out->text, text, out->text_bytes + 1);
  return YK_OK;
}

static yk_status parse(yk_normalizer *normalizer, const char *file, yk_json value, int depth, yk_err *err)
{
  const char *type;
  YK_TRY(yk_component_type(file, "normalizer", value, &type, err));
  if (strcmp(type, "Sequence") == 0) {
    yk_json list;
    YK_TRY(yk_component_list(file, "normalizer", value, "normalizers", depth, &list, err));
    YK_JSON_EACH(part, list) YK_TRY(parse(normalizer, file, part, depth + 1, err));
    return YK_OK;
  }
  if (normalizer->n_steps == YK_COMPONENT_MAX_STEPS) return yk_component_too_many(file, "normalizer", err);
  return parse_step(&normalizer->steps[normalizer->n_steps++], file, value, type, err);
}

yk_status yk_normalizer_parse(yk_normalizer *normalizer, const char *file, yk_json value, yk_err *err)
{
  *normalizer = (yk_normalizer){0};
  if (!yk_json_is_given(value)) return YK_OK;
  normalizer->steps = calloc(YK_COMPONENT_MAX_STEPS, sizeof *normalizer->steps);
  if (!normalizer->steps) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a normalizer", file);
  yk_status status = parse(normalizer, file, value, 0, err);
  if (status != YK_OK) yk_normalizer_free(normalizer);
  return status;
}

void yk_normalizer_free(yk_normalizer *normalizer)
{
  for (size_t i = 0; i < normalizer->n_steps; i++) {
    yk_regex_free(normalizer->steps[i].pattern);
    free(normalizer->steps[i].text);
  }
  free(normalizer->steps);
  *normalizer = (yk_normalizer){0};
}

/* A file may chain replacements that each lengthen the text: the input's length bounds the result's. */
static size_t longest_result(size_t n_bytes)
{
  return n_bytes > SIZE_MAX / 512 ? SIZE_MAX / 2 : 256 * n_bytes + (64 << 10);
}

/* Maps spans to the text in which every match has become n_bytes long. A span that overlaps a match contains the whole
 * replacement. */
static void replace_in_spans(const yk_spans *matches, size_t n_bytes, yk_spans *spans)
{
  size_t n = 0, before = 0, removed = 0; /* number of matches before a span, and of their bytes */
  for (size_t i = 0; i < spans->n; i++) {
    yk_span span = spans->items[i];
    while (before < matches->n && matches->items[before].end <= span.begin) {
      removed += matches->items[before].end - matches->items[before].begin;
      before++;
    }
    size_t last = before, last_removed = removed;
    size_t begin = span.begin;
    if (before < matches->n && matches->items[before].begin < begin) begin = matches->items[before].begin;
    size_t end = span.end;
    for (; last < matches->n && matches->items[last].begin < span.end; last++) {
      last_removed += matches->items[last].end - matches->items[last].begin;
      if (matches->items[last].end > end) end = matches->items[last].end;
    }
    begin += before * n_bytes - removed;
    end += last * n_bytes - last_removed;
    if (n > 0 && begin < spans->items[n - 1].end) begin = spans->items[n - 1].end; /* both overlap one match */
    if (begin < end) spans->items[n++] = (yk_span){begin, end};
  }
  spans->n = n;
}

static yk_status replace(const step *replacing, const yk_strbuf *in, size_t limit, yk_strbuf *out, yk_spans *spans,
                         yk_err *err)
{
  yk_spans matches = {0};
  size_t at = 0;
  yk_status status = yk_regex_find_all(replacing->pattern, in->data, in->length, &matches, err);
  for (size_t i = 0; i < matches.n && status == YK_OK; i++) {
    yk_strbuf_append(out, in->data + at, matches.items[i].begin - at);
    yk_strbuf_append(out, replacing->text, replacing->text_bytes);
    at = matches.items[i].end;
    if (out->length > limit)
      status = yk_err_set(err, YK_E_FORMAT, "normalizer: Replace makes the text longer than %zu bytes", limit);
  }
  yk_strbuf_append(out, in->data + at, in->length - at);
  if (spans) replace_in_spans(&matches, replacing->text_bytes, spans);
  free(matches.items);
  return status;
}

static bool is_ascii(char byte)
{
  return (unsigned char)byte < 0x80;
}

/* Computes the normal form of a text, span by span: a text can be cut before an ASCII character without changing its
 * form, so spans are extended to such positions. */
static yk_status apply_form(yk_unicode_form form, const yk_strbuf *in, yk_strbuf *out, yk_spans *spans, yk_err *err)
{
  size_t at = 0, n = 0;
  for (size_t i = 0; spans && i < spans->n; i++) {
    size_t begin = spans->items[i].begin, end = spans->items[i].end;
    if (end <= at) continue; /* the previous span has been extended over this one */
    while (begin > at && !is_ascii(in->data[begin])) begin--;
    while (end < in->length && !is_ascii(in->data[end])) end++;
    if (begin < at) begin = at;
    YK_TRY(yk_unicode_form_apply(form, in->data + at, begin - at, out, err));
    size_t out_begin = out->length;
    YK_TRY(yk_unicode_form_apply(form, in->data + begin, end - begin, out, err));
    spans->items[n++] = (yk_span){out_begin, out->length};
    at = end;
  }
  if (spans) spans->n = n;
  return yk_unicode_form_apply(form, in->data + at, in->length - at, out, err);
}

static void prepend(const step *prepending, const yk_strbuf *in, yk_strbuf *out, yk_spans *spans)
{
  yk_strbuf_append(out, prepending->text, prepending->text_bytes);
  yk_strbuf_append(out, in->data, in->length);
  for (size_t i = 0; spans && i < spans->n; i++) {
    spans->items[i].begin += prepending->text_bytes;
    spans->items[i].end += prepending->text_bytes;
  }
}

static yk_status apply_step(const step *applied, const yk_strbuf *in, size_t limit, yk_strbuf *out, yk_spans *spans,
                            yk_err *err)
{
  if (in->length == 0) return YK_OK; /* an empty text stays empty */
  switch (applied->kind) {
  case STEP_FORM: return apply_form(applied->form, in, out, spans, err);
  case STEP_REPLACE: return replace(applied, in, limit, out, spans, err);
  case STEP_PREPEND: prepend(applied, in, out, spans); return YK_OK;
  }
  return YK_OK;
}

yk_status yk_normalizer_apply(const yk_normalizer *normalizer, const char *text, size_t n_bytes, yk_strbuf *out,
                              yk_spans *spans, yk_err *err)
{
  yk_strbuf spare = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  yk_strbuf_clear(out);
  yk_strbuf_append(out, text, n_bytes);
  for (size_t i = 0; i < normalizer->n_steps && status == YK_OK && !out->failed; i++) {
    yk_strbuf_clear(&spare);
    status = apply_step(&normalizer->steps[i], out, longest_result(n_bytes), &spare, spans, err);
    yk_strbuf swap = spare;
    spare = *out;
    *out = swap;
  }
  if (status == YK_OK && (out->failed || spare.failed))
    status = yk_err_set(err, YK_E_NOMEM, "no memory to normalise %zu bytes", n_bytes);
  yk_strbuf_free(&spare);
  return status;
}
