/* document.h - a JSON text from outside: strict, of bounded depth, with seeds up to 2^64 - 1.
 *
 * Integers of jansson are signed, so a text with a seed from 2^63 on is refused by it; such a text is read again with 0
 * in the seed's place, and the seed's value is kept beside. */
#ifndef YK_OPENAI_DOCUMENT_H
#define YK_OPENAI_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { YK_OPENAI_MAX_DEPTH = 64 }; /* of objects and arrays inside each other */

typedef struct yk_openai_document {
  json_t *root;       /* owned */
  uint64_t wide_seed; /* of the one key "seed" with an integer of 2^63 or more */
  bool has_wide_seed;
} yk_openai_document;

/* yk_openai_document_parse - text [n_bytes]. name: of the text, for errors; NULL where the text is one line of a file
 *   which the caller names. *out is valid and must be freed whatever is returned.
 *   Errors: YK_E_FORMAT (no JSON, a key twice, too deep), YK_E_INVAL (a seed of 2^64 or more), YK_E_NOMEM. */
yk_status yk_openai_document_parse(const char *name, const char *text, size_t n_bytes, yk_openai_document *out,
                                   yk_err *err);
void yk_openai_document_free(yk_openai_document *document);

#endif
