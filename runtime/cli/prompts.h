/* prompts.h - the prompts of one `yoke generate`, in the order of the command line. */
#ifndef YK_CLI_PROMPTS_H
#define YK_CLI_PROMPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum yk_prompt_kind { YK_PROMPT_TEXT, YK_PROMPT_FILE, YK_PROMPT_IDS } yk_prompt_kind;

typedef struct yk_prompt {
  yk_prompt_kind kind;
  const char *argument; /* the text, a path ("-": standard input), or "5,6,7" */
  char *owned;          /* contents of a file or stdin, or NULL */
  const char *text;     /* [n_bytes]; NULL if ids are given */
  size_t n_bytes;
  int32_t *ids; /* [n_ids], owned */
  size_t n_ids;
} yk_prompt;

typedef struct yk_prompts {
  yk_prompt *items; /* [n], owned */
  size_t n;
} yk_prompts;

/* yk_prompts_add_* - for yk_option.parse, with the list as its value. Ids are parsed here, files are read by
 *   yk_prompts_load. Errors: YK_E_INVAL (ids), YK_E_NOMEM. */
yk_status yk_prompts_add_text(void *prompts, const char *text, yk_err *err);
yk_status yk_prompts_add_file(void *prompts, const char *path, yk_err *err);
yk_status yk_prompts_add_ids(void *prompts, const char *list, yk_err *err);

/* yk_prompts_load - read the files, or stdin as the only prompt if the list is empty. One newline at the very end of a
 *   file or of stdin and a byte order mark at its start are dropped, since editors and shells add them.
 *   Errors: YK_E_IO or YK_E_FORMAT (too long) naming the file, YK_E_NOMEM. */
yk_status yk_prompts_load(yk_prompts *prompts, yk_err *err);

/* yk_prompt_print - print the prompt to stdout, with "> " before each line. */
void yk_prompt_print(const yk_prompt *prompt);

void yk_prompts_free(yk_prompts *prompts);

#endif
