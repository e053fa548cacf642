/* batch_line.h - one line of a batch's input: what it asks for, checked as far as is possible without the engine. */
#ifndef YK_CLI_BATCH_LINE_H
#define YK_CLI_BATCH_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/sampling_options.h"
#include "yoke.h"

enum { YK_BATCH_MAX_REQUESTS = 1024 };

typedef enum yk_batch_form {
  YK_BATCH_PLAIN, /* {"prompt": ..., sampling keys, "id" or "custom_id"} */
  YK_BATCH_OPENAI /* {"custom_id", "method", "url", "body": {"prompt": ..., sampling keys}} */
} yk_batch_form;

/* What the result of a line needs to know about it. */
typedef struct yk_batch_ticket {
  int64_t number; /* of the line, from 1 */
  uint32_t hash;  /* of its bytes, the model and the options */
  yk_batch_form form;
  const char *id_key;    /* "custom_id" or "id" */
  json_t *id;            /* owned; null where there is none */
  json_t *model;         /* "model" of an OpenAI line's body, owned; or NULL */
  bool return_token_ids; /* of an OpenAI line */
} yk_batch_ticket;

typedef struct yk_batch_prompt {
  const char *text; /* [n_bytes], or NULL where ids are given */
  size_t n_bytes;
  int32_t *ids; /* [n_ids], owned */
  size_t n_ids;
} yk_batch_prompt;

typedef struct yk_batch_line {
  yk_batch_ticket ticket;
  json_t *root;       /* owned; texts point into it */
  uint64_t wide_seed; /* see wide_seed.h */
  bool has_wide_seed;
  yk_batch_prompt *prompts; /* [n_prompts], owned */
  size_t n_prompts;
  int32_t n_samples;   /* of each prompt */
  bool has_max_tokens; /* else sampling.max_tokens is bounded by what the context leaves */
  yk_sampling sampling;
  int32_t *stop_ids; /* these are what sampling points to */
  const char **stop_strings;
  yk_logit_bias *biases;
} yk_batch_line;

/* yk_batch_line_parse - read a line over the defaults: sampling, with options saying whether its max_tokens was asked
 *   for, and how many samples a prompt has; hash: into the ticket. *out is valid and must be freed whatever is
 *   returned; its ticket holds what could be read.
 *   Errors: YK_E_FORMAT (no JSON, a key of the wrong type), YK_E_INVAL (a value out of range, an unknown key),
 *   YK_E_UNSUPPORTED (what Yoke does not do), YK_E_NOMEM. */
yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_sampling *defaults, const yk_sampling_options *options, yk_batch_line *out,
                              yk_err *err);

void yk_batch_line_free(yk_batch_line *line);
void yk_batch_ticket_free(yk_batch_ticket *ticket);

#endif
