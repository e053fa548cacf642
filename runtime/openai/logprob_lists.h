/* logprob_lists.h - builds log-probabilities as JSON token by token, in the forms of completions and of chat. */
#ifndef YK_OPENAI_LOGPROB_LISTS_H
#define YK_OPENAI_LOGPROB_LISTS_H

#include "openai/token_walk.h"

/* Elements separated by commas, without brackets. */
typedef struct yk_logprob_lists {
  yk_strbuf tokens;                  /* chat: objects of token, logprob, bytes, top_logprobs */
  yk_strbuf logprobs, tops, offsets; /* completions: one element a token each; texts are in tokens */
  int64_t n_characters;              /* of all tokens so far: the next text_offset */
  bool names_ids;                    /* a token is "token_id:5" instead of its text; set by the creator of the lists */
} yk_logprob_lists;

/* Each adds the next token. walk: see token_walk.h. Errors: YK_E_NOMEM; yk_logprob_lists_failed reports a failed
 * allocation of the lists. */

/* yk_logprob_lists_add - in the form of completions; at most n_most of the most probable tokens. A number that JSON
 *   cannot express is null. */
yk_status yk_logprob_lists_add(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                               yk_err *err);

/* yk_logprob_lists_add_first - a prompt's first token, which has no log-probability. */
yk_status yk_logprob_lists_add_first(yk_logprob_lists *lists, yk_token_walk *walk, int32_t id, yk_err *err);

/* yk_logprob_lists_add_chat - in the form of chat; -9999 stands for a token that cannot occur. */
yk_status yk_logprob_lists_add_chat(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, yk_err *err);

/* yk_logprob_append_by_id - append {"ID": {"logprob", "rank", "decoded_token"}, ...}, vLLM's form of prompt_logprobs:
 *   the token itself, then at most n_most of the most probable tokens. Errors: YK_E_NOMEM. */
yk_status yk_logprob_append_by_id(yk_strbuf *out, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                                  yk_err *err);

/* Append the collected lists as an object. */
void yk_logprob_lists_append(const yk_logprob_lists *lists, yk_strbuf *out);
void yk_logprob_lists_append_chat(const yk_logprob_lists *lists, yk_strbuf *out);

/* yk_logprob_lists_clear - drop the elements that have been written; n_characters continues. */
void yk_logprob_lists_clear(yk_logprob_lists *lists);
bool yk_logprob_lists_failed(const yk_logprob_lists *lists);
void yk_logprob_lists_free(yk_logprob_lists *lists);

#endif
