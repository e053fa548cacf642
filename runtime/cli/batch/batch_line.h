/* batch_line.h - one line of a batch's input, checked without the engine. */
#ifndef YK_CLI_BATCH_LINE_H
#define YK_CLI_BATCH_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "openai/request.h"

typedef enum yk_batch_form {
  YK_BATCH_PLAIN, /* {"prompt": ..., sampling keys, "id" or "custom_id"} */
  YK_BATCH_OPENAI /* {"custom_id", "method", "url", "body": {"prompt" or "messages": ..., sampling keys}} */
} yk_batch_form;

/* The parts of a line that its result needs. */
typedef struct yk_batch_ticket {
  int64_t number; /* line number, from 1 */
  uint32_t hash;  /* of the line's bytes, the model and the options */
  yk_batch_form form;
  const char *id_key; /* "custom_id" or "id" */
  char *id;           /* as JSON, owned; NULL: null */
} yk_batch_ticket;

typedef struct yk_batch_line {
  yk_batch_ticket ticket;
  yk_openai_request request; /* owned */
} yk_batch_line;

/* yk_batch_line_parse - parse a line with the given defaults; hash: stored in the ticket.
 *   *out is valid and must be freed even after an error; its ticket contains the fields that could be read.
 *   Errors: YK_E_FORMAT (invalid JSON, a key of the wrong type), YK_E_INVAL (a value out of range, an unknown key),
 *   YK_E_UNSUPPORTED (a feature that Yoke lacks), YK_E_NOMEM. */
yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_openai_defaults *defaults, yk_batch_line *out, yk_err *err);

void yk_batch_line_free(yk_batch_line *line);
void yk_batch_ticket_free(yk_batch_ticket *ticket);

#endif
