/* post_processor.h - the "post_processor" of a tokenizer.json: ByteLevel (which changes no ids), TemplateProcessing,
 * Sequence. */
#ifndef YK_TEXT_POST_PROCESSOR_H
#define YK_TEXT_POST_PROCESSOR_H

#include "base/json.h"
#include "text/ids.h"

typedef struct yk_post_processor {
  yk_ids parts; /* ids of special tokens, and YK_POST_TEXT at the position of the text's ids; empty: only the text */
} yk_post_processor;

enum { YK_POST_TEXT = -1 };

/* yk_post_processor_parse - read the value of "post_processor" (absent or null: none). Ids in it must be below
 *   id_limit.
 *   On failure the caller frees nothing. */
yk_status yk_post_processor_parse(yk_post_processor *post, const char *file, yk_json value, int32_t id_limit,
                                  yk_err *err);
void yk_post_processor_free(yk_post_processor *post);

/* yk_post_processor_apply - append to out the template filled with the ids of a text. Any thread. */
void yk_post_processor_apply(const yk_post_processor *post, const yk_ids *text, bool add_special_tokens, yk_ids *out);

/* yk_post_processor_n_special - number of special tokens around a text. */
size_t yk_post_processor_n_special(const yk_post_processor *post);

#endif
