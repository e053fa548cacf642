/* token_texts.h - texts of single tokens for log-probabilities; each is computed once and kept. */
#ifndef YK_OPENAI_TOKEN_TEXTS_H
#define YK_OPENAI_TOKEN_TEXTS_H

#include "base/strbuf.h"
#include "yoke/yoke.h"

typedef struct yk_token_texts yk_token_texts; /* owner: the creator; one thread at a time */

/* yk_token_texts_create - for an engine, which must outlive the texts. Without an engine (NULL), or if it has no
 *   tokenizer, a text is "token_id:5". Errors: YK_E_NOMEM. */
yk_status yk_token_texts_create(const yk_engine *engine, yk_token_texts **out, yk_err *err);
void yk_token_texts_free(yk_token_texts *texts);

/* yk_token_texts_engine - the engine; NULL if it has no tokenizer. */
const yk_engine *yk_token_texts_engine(const yk_token_texts *texts);

/* yk_token_text - the text of an id inside a text, including special ones ("<s>"); half a character is U+FFFD. Valid
 *   until the next call. Errors: YK_E_NOMEM; *text is then NULL. */
yk_status yk_token_text(yk_token_texts *texts, int32_t id, const char **text, size_t *n_bytes, yk_err *err);

/* yk_token_texts_decode - append the text of ids, without special tokens; nothing without a tokenizer. Errors:
 *   YK_E_INVAL (an id outside the vocabulary), YK_E_FORMAT (a tokenizer that makes texts grow without end),
 *   YK_E_NOMEM. */
yk_status yk_token_texts_decode(yk_token_texts *texts, const int32_t *ids, size_t n_ids, yk_strbuf *out, yk_err *err);

#endif
