/* text.h - text to token ids and back. */
#ifndef YOKE_API_TEXT_H
#define YOKE_API_TEXT_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_engine_tokenize - ids of a text; *ids is malloc'd and belongs to the caller. add_special_tokens adds the tokens
 *   that the model expects around every text (a beginning-of-sequence token); the text of a chat template contains its
 *   own.
 *   Errors: YK_E_UNSUPPORTED if the checkpoint has no readable tokenizer (with the cause), YK_E_INVAL for text that is
 *   not UTF-8, is 2 GiB long or longer, or exceeds the matching limits of the tokenizer's pattern, YK_E_NOMEM. *ids is
 *   then NULL. */
yk_status yk_engine_tokenize(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                             int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_tokenize_bounded - the same for a prompt: if a text clearly has more than max_ids tokens (0: no limit),
 *   tokenising stops early with YK_E_CAPACITY. A text with slightly more may still be tokenised. */
yk_status yk_engine_tokenize_bounded(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                     size_t max_ids, int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_tokenize_last - the last n_last (at least 1) of the ids of yk_engine_tokenize, or all if there are no more.
 *   A long text is tokenised from near its end, unless the ids depend on the beginning. */
yk_status yk_engine_tokenize_last(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                                  size_t n_last, int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_tokenize_truncated - the ids of yk_engine_tokenize, cut to n_most (at least 1) as transformers does: the
 *   tokens that the model expects around every text stay, and the text keeps its last ids (keeps_end) or its first
 *   ones. A part of a long text is tokenised, unless its ids depend on the rest. */
yk_status yk_engine_tokenize_truncated(const yk_engine *engine, const char *text, size_t n_bytes,
                                       bool add_special_tokens, size_t n_most, bool keeps_end, int32_t **ids,
                                       size_t *n_ids, yk_err *err);

/* yk_engine_detokenize - the text of n_ids token ids, always well-formed UTF-8: bytes that form no character become
 *   U+FFFD. *text is malloc'd, belongs to the caller and is NUL-terminated after its *n_bytes bytes (it may hold NUL
 *   characters). skip_special_tokens omits special tokens ("<s>"). Ids of the model's vocabulary that the tokenizer
 *   lacks have no text.
 *   Errors: YK_E_UNSUPPORTED if the checkpoint has no tokenizer, YK_E_INVAL for an id outside the vocabulary,
 *   YK_E_FORMAT for a tokenizer that makes texts grow without end, YK_E_NOMEM. *text is then NULL. */
yk_status yk_engine_detokenize(const yk_engine *engine, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                               char **text, size_t *n_bytes, yk_err *err);

/* Text from token ids that arrive a few at a time. The texts from push and finish together equal the text of
 * yk_engine_detokenize for all the ids. One thread at a time may use a stream; different streams may be used by
 * different threads. */
typedef struct yk_text_stream yk_text_stream;

/* yk_text_stream_create - an empty stream.
 *   Errors: YK_E_UNSUPPORTED if the checkpoint has no tokenizer, YK_E_NOMEM. */
yk_status yk_text_stream_create(const yk_engine *engine, bool skip_special_tokens, yk_text_stream **out, yk_err *err);

/* yk_text_stream_continue - before the first push: the text continues after these ids, a prompt whose text is not
 *   returned. Some models spell the first token of a text differently, and a prompt may end inside a character, which
 *   push then returns whole. Errors: those of push. */
yk_status yk_text_stream_continue(yk_text_stream *stream, const int32_t *ids, size_t n_ids, yk_err *err);

/* yk_text_stream_push - add n_ids ids. *text: the text that has become final, whole UTF-8 characters, maybe none; owned
 *   by the stream, valid until its next call. A character with missing bytes is held back; with byte fallback a whole
 *   run of byte tokens is held back, since one bad byte spoils the whole run.
 *   Errors: YK_E_INVAL for an id outside the vocabulary: none of the ids has been added. YK_E_NOMEM, or YK_E_FORMAT for
 *   a tokenizer that makes texts grow without end: text is lost, and only free may be called. */
yk_status yk_text_stream_push(yk_text_stream *stream, const int32_t *ids, size_t n_ids, const char **text,
                              size_t *n_bytes, yk_err *err);

/* yk_text_stream_finish - no more ids follow: returns the text that was held back. The next push begins another text.
 *   Errors: YK_E_NOMEM. */
yk_status yk_text_stream_finish(yk_text_stream *stream, const char **text, size_t *n_bytes, yk_err *err);

/* yk_text_stream_free - NULL is allowed. Free a stream before its engine is destroyed. */
void yk_text_stream_free(yk_text_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
