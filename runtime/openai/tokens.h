/* tokens.h - requests and answers of /tokenize and /detokenize, in vLLM's form, and answers of /v1/models. */
#ifndef YK_OPENAI_TOKENS_H
#define YK_OPENAI_TOKENS_H

#include "openai/request.h"
#include "openai/token_texts.h"

/* {"prompt": text[, "add_special_tokens"]}, or {"messages": [...][, "add_generation_prompt", "continue_final_message",
 * "add_special_tokens", "tools", "chat_template_kwargs"]}; either with "model" and "return_token_strs". */
typedef struct yk_tokenize_request {
  const char *model; /* borrowed; NULL: the served model */
  const char *text;  /* [n_bytes] borrowed; NULL if messages are given */
  size_t n_bytes;
  bool add_special_tokens; /* for the text, default true; a chat has its own */
  bool return_token_strs;
  yk_openai_chat chat; /* messages are absent if a text is given */
  char param[YK_OPENAI_PARAM_BYTES];
} yk_tokenize_request;

/* yk_tokens_body_rules - as yk_openai_body_rules, for the bodies of both. */
yk_json_rules yk_tokens_body_rules(size_t max_bytes);

/* yk_tokenize_request_parse - root: the body; the request borrows from its document.
 *   Errors: as for yk_openai_request_parse. */
yk_status yk_tokenize_request_parse(yk_json root, yk_tokenize_request *out, yk_err *err);

/* yk_tokenize_answer_append - {"count", "max_model_len", "tokens"[, "token_strs"]}. texts: for token_strs; NULL:
 *   omitted. Errors: YK_E_NOMEM. */
yk_status yk_tokenize_answer_append(const int32_t *ids, size_t n_ids, int32_t max_model_tokens, yk_token_texts *texts,
                                    yk_strbuf *out, yk_err *err);

/* {"tokens": [ids][, "model"]} */
typedef struct yk_detokenize_request {
  const char *model; /* borrowed; NULL: the served model */
  int32_t *ids;      /* [n_ids], owned; free them even after an error */
  size_t n_ids;
  char param[YK_OPENAI_PARAM_BYTES];
} yk_detokenize_request;

/* yk_detokenize_request_parse - {"tokens": [ids], "model": name}. Errors: YK_E_FORMAT, YK_E_NOMEM; out->param is then
 *   the field at fault, or "". */
yk_status yk_detokenize_request_parse(yk_json root, yk_detokenize_request *out, yk_err *err);

/* yk_detokenize_answer_append - {"prompt": text} */
void yk_detokenize_answer_append(const char *text, size_t n_bytes, yk_strbuf *out);

/* The names of a model, at least one, and of its adapters. */
typedef struct yk_served_names {
  const char *const *models; /* [n_models] */
  size_t n_models;
  const yk_adapter_name *adapters; /* [n_adapters] */
  size_t n_adapters;
} yk_served_names;

/* yk_models_append - {"object": "list", "data": [...], "has_more": false, "first_id", "last_id", "models": []} with an
 *   entry of data for each name; a name is id, root and display name, and the parent of an adapter is the first name of
 *   the model. Anthropic's clients read "has_more", the first and the last id, and in an entry "type", "display_name",
 *   "created_at", "lifecycle" and both limits of tokens. Codex reads "models", and an entry in it would replace Codex's
 *   prompt. names: at least one of a model. */
void yk_models_append(const yk_served_names *names, int64_t created_s, int32_t max_model_tokens, yk_strbuf *out);

/* yk_model_append - one entry of that list, for /v1/models/NAME. parent: of an adapter, its base model; NULL: none. */
void yk_model_append(const char *name, const char *parent, int64_t created_s, int32_t max_model_tokens, yk_strbuf *out);

#endif
