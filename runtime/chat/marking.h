/* marking.h - carries plain ranges through a template: a mark, an otherwise unused character, follows every character
 * that has to be plain when the rendered text is tokenised (text/plain_marks.h). */
#ifndef YK_CHAT_MARKING_H
#define YK_CHAT_MARKING_H

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "text/span.h"
#include "text/tokenizer.h"

enum { YK_MARK_BYTES = 5 }; /* a character in UTF-8 and a NUL */

/* yk_marking_choose - write a character that occurs in none of the texts to mark: a code point that Unicode leaves
 *   unassigned (U+FDD0 to U+FDEF, then U+F0000 and following). Errors: YK_E_INVAL if the texts contain all of them. */
yk_status yk_marking_choose(const char *const *texts, size_t n_texts, char mark[YK_MARK_BYTES], yk_err *err);

/* yk_marking_append - append value as JSON text with a mark after every character that has to be plain, in every
 *   string and key, either unescaped or as escaped in JSON; *n_marks is raised by their number. Errors: YK_E_NOMEM,
 *   YK_E_FORMAT (the tokenizer's normalizer). */
yk_status yk_marking_append(yk_json value, const yk_tokenizer *tokenizer, const char *mark, yk_strbuf *out,
                            size_t *n_marks, yk_err *err);

/* yk_marking_append_messages - the same for a list of messages, in which "role" and, in assistant messages, everything
 *   except the tool calls stays unmarked. */
yk_status yk_marking_append_messages(yk_json messages, const yk_tokenizer *tokenizer, const char *mark, yk_strbuf *out,
                                     size_t *n_marks, yk_err *err);

/* yk_marking_take - append text without its marks to out, and the spans of the marked characters to plain. Errors:
 *   YK_E_NOMEM. */
yk_status yk_marking_take(const char *text, size_t n_bytes, const char *mark, yk_strbuf *out, yk_spans *plain,
                          yk_err *err);

#endif
