/* normalizer.h - the "normalizer" of a tokenizer.json: NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence. */
#ifndef YK_TEXT_NORMALIZER_H
#define YK_TEXT_NORMALIZER_H

#include "base/json.h"
#include "base/strbuf.h"
#include "text/span.h"

typedef struct yk_normalizer {
  struct yk_normalizer_step *steps; /* applied in order; none: the text is unchanged */
  size_t n_steps;
} yk_normalizer;

/* yk_normalizer_parse - read the value of "normalizer" (absent or null: none). On failure the caller frees nothing. */
yk_status yk_normalizer_parse(yk_normalizer *normalizer, const char *file, yk_json value, yk_err *err);
void yk_normalizer_free(yk_normalizer *normalizer);

/* yk_normalizer_apply - overwrite out with the normal form of text (valid UTF-8).
 *   spans: ordered, disjoint spans of text, which are mapped to the spans of out that derive from them; or NULL.
 *   Thread: any. */
yk_status yk_normalizer_apply(const yk_normalizer *normalizer, const char *text, size_t n_bytes, yk_strbuf *out,
                              yk_spans *spans, yk_err *err);

#endif
