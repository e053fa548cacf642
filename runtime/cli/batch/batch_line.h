/* batch_line.h - one line of a batch's input: what it asks for, checked as far as is possible without the engine. */
#ifndef YK_CLI_BATCH_LINE_H
#define YK_CLI_BATCH_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "openai/request.h"

typedef enum yk_batch_form {
  YK_BATCH_PLAIN, /* {"prompt": ..., sampling keys, "id" or "custom_id"} */
  YK_BATCH_OPENAI /* {"custom_id", "method", "url", "body": {"prompt" or "messages": ..., sampling keys}} */
} yk_batch_form;

/* What the result of a line needs to know about it. */
typedef struct yk_batch_ticket {
  int64_t number; /* of the line, from 1 */
  uint32_t hash;  /* of its bytes, the model and the options */
  yk_batch_form form;
  const char *id_key; /* "custom_id" or "id" */
  char *id;           /* as JSON, owned; NULL: null */
} yk_batch_ticket;

typedef struct yk_batch_line {
  yk_batch_ticket ticket;
  yk_openai_request request; /* owned */
} yk_batch_line;

/* yk_batch_line_parse - read a line over the defaults; hash: into the ticket.
 *   *out is valid and must be freed whatever is returned; its ticket holds what could be read.
 *   Errors: YK_E_FORMAT (no JSON, a key of the wrong type), YK_E_INVAL (a value out of range, an unknown key),
 *   YK_E_UNSUPPORTED (what Yoke does not do), YK_E_NOMEM. */
yk_status yk_batch_line_parse(const char *text, size_t n_bytes, int64_t number, uint32_t hash,
                              const yk_openai_defaults *defaults, yk_batch_line *out, yk_err *err);

void yk_batch_line_free(yk_batch_line *line);
void yk_batch_ticket_free(yk_batch_ticket *ticket);

#endif
