/* logprob_lists.h - log-probabilities as JSON that grows token by token, in the forms of completions and of chat. */
#ifndef YK_OPENAI_LOGPROB_LISTS_H
#define YK_OPENAI_LOGPROB_LISTS_H

#include "openai/token_walk.h"

/* Elements with commas between, without brackets. */
typedef struct yk_logprob_lists {
  yk_strbuf tokens;                  /* chat: objects of token, logprob, bytes, top_logprobs */
  yk_strbuf logprobs, tops, offsets; /* completions: one element a token each, beside its text in tokens */
  int64_t n_characters;              /* of all tokens since the beginning: the next text_offset */
  bool names_ids;                    /* a token is "token_id:5", not its text; set by who begins the lists */
} yk_logprob_lists;

/* Each adds the token that comes next. walk: see token_walk.h. Errors: YK_E_NOMEM; memory of the lists is checked by
 * yk_logprob_lists_failed. */

/* yk_logprob_lists_add - in completions' form; at most n_most of the best tokens. A number that JSON does not have is
 *   null. */
yk_status yk_logprob_lists_add(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                               yk_err *err);

/* yk_logprob_lists_add_first - a prompt's first token, which has no log-probability. */
yk_status yk_logprob_lists_add_first(yk_logprob_lists *lists, yk_token_walk *walk, int32_t id, yk_err *err);

/* yk_logprob_lists_add_chat - in chat's form, where -9999 stands for a token that cannot occur. */
yk_status yk_logprob_lists_add_chat(yk_logprob_lists *lists, yk_token_walk *walk, const yk_output *output, yk_err *err);

/* yk_logprob_append_by_id - append {"ID": {"logprob", "rank", "decoded_token"}, ...}, as vLLM has prompt_logprobs: the
 *   token itself, then at most n_most of the best. Errors: YK_E_NOMEM. */
yk_status yk_logprob_append_by_id(yk_strbuf *out, yk_token_walk *walk, const yk_output *output, int32_t n_most,
                                  yk_err *err);

/* The gathered lists as an object. */
void yk_logprob_lists_append(const yk_logprob_lists *lists, yk_strbuf *out);
void yk_logprob_lists_append_chat(const yk_logprob_lists *lists, yk_strbuf *out);

/* yk_logprob_lists_clear - forget what has been told; n_characters goes on. */
void yk_logprob_lists_clear(yk_logprob_lists *lists);
bool yk_logprob_lists_failed(const yk_logprob_lists *lists);
void yk_logprob_lists_free(yk_logprob_lists *lists);

#endif
