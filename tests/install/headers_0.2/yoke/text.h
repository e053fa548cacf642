/* text.h - text to token ids and back. */
#ifndef YOKE_API_TEXT_H
#define YOKE_API_TEXT_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_engine_tokenize - ids of a text; *ids is malloc'd and the caller's. add_special_tokens adds what the model wants
 *   around every text (a beginning-of-sequence token); the text of a chat template brings its own.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer that can be read (with the cause), YK_E_INVAL for
 *   text that is not UTF-8 or 2 GiB long or longer, YK_E_NOMEM. *ids is then NULL. */
yk_status yk_engine_tokenize(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                             int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_tokenize_bounded - the same of a prompt: a text that clearly has more than max_ids tokens (0: any number)
 *   is given up early, with YK_E_CAPACITY. One that has a few more may still be tokenised. */
yk_status yk_engine_tokenize_bounded(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                     size_t max_ids, int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_tokenize_last - the last n_last (at least 1) of the ids that yk_engine_tokenize gives, or all where there
 *   are no more. A long text is tokenised from near its end, unless the ids depend on the beginning. */
yk_status yk_engine_tokenize_last(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                  size_t n_last, int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_detokenize - the text of n_ids token ids, always well-formed UTF-8: bytes that spell no character become
 *   U+FFFD. *text is malloc'd, the caller's, and NUL-terminated behind its *n_bytes bytes (it may hold NUL characters).
 *   skip_special_tokens leaves special tokens ("<s>") out. Ids of the model's vocabulary that the tokenizer does not
 *   know have no text.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer, YK_E_INVAL for an id outside the vocabulary,
 *   YK_E_FORMAT for a tokenizer that makes texts grow without end, YK_E_NOMEM. *text is then NULL. */
yk_status yk_engine_detokenize(const yk_engine *engine, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                               char **text, size_t *n_bytes, yk_err *err);

/* Text from token ids that come a few at a time. What push and finish give is together the text that
 * yk_engine_detokenize gives for all the ids. One thread at a time uses a stream; different streams any. */
typedef struct yk_text_stream yk_text_stream;

/* yk_text_stream_create - an empty stream.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer, YK_E_NOMEM. */
yk_status yk_text_stream_create(const yk_engine *engine, bool skip_special_tokens, yk_text_stream **out, yk_err *err);

/* yk_text_stream_continue - before the first push: the text goes on behind these ids, a prompt, whose text is not given
 *   out. Some models spell the first token of a text differently, and a prompt may end inside a character, which push
 *   then gives out whole. Errors: those of push. */
yk_status yk_text_stream_continue(yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err);

/* yk_text_stream_push - add n_ids ids. *text: what has become final, whole UTF-8 characters, maybe none; the stream's
 *   own, valid until its next call. A character whose bytes are not all there is held back; with byte fallback a whole
 *   run of byte tokens is, since one bad byte spoils all of it.
 *   Errors: YK_E_INVAL for an id outside the vocabulary: none of the ids has been added. YK_E_NOMEM, or YK_E_FORMAT for
 *   a tokenizer that makes texts grow without end: text is lost, and only free is of use. */
yk_status yk_text_stream_push(yk_text_stream *stream, const int32_t *ids, size_t n_ids, const char **text,
                              size_t *n_bytes, yk_err *err);

/* yk_text_stream_finish - no more ids: the text that was held back. The next push begins another text. Errors:
 *   YK_E_NOMEM. */
yk_status yk_text_stream_finish(yk_text_stream *stream, const char **text, size_t *n_bytes, yk_err *err);

/* yk_text_stream_free - NULL is allowed. Must come before the engine is destroyed. */
void yk_text_stream_free(yk_text_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
