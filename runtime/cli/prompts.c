#include "cli/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

enum { PROMPT_FILE_MAX_BYTES = 256 << 20 };

static yk_prompt *add(yk_prompts *prompts, yk_prompt_kind kind, const char *argument, yk_err *err)
{
  yk_prompt *grown = realloc(prompts->items, (prompts->n + 1) * sizeof *grown);
  if (!grown) {
    yk_err_set(err, YK_E_NOMEM, "no memory for %zu prompts", prompts->n + 1);
    return NULL;
  }
  prompts->items = grown;
  grown[prompts->n] = (yk_prompt){.kind = kind, .argument = argument};
  return &grown[prompts->n++];
}

yk_status yk_prompts_add_text(void *prompts, const char *text, yk_err *err)
{
  return add(prompts, YK_PROMPT_TEXT, text, err) ? YK_OK : YK_E_NOMEM;
}

yk_status yk_prompts_add_file(void *prompts, const char *path, yk_err *err)
{
  return add(prompts, YK_PROMPT_FILE, path, err) ? YK_OK : YK_E_NOMEM;
}

yk_status yk_prompts_add_ids(void *prompts, const char *list, yk_err *err)
{
  yk_prompt *prompt = add(prompts, YK_PROMPT_IDS, list, err);
  if (!prompt) return YK_E_NOMEM;
  return yk_int_list_parse(list, &prompt->ids, &prompt->n_ids, err);
}

static yk_status load(yk_prompt *prompt, yk_err *err)
{
  if (prompt->kind == YK_PROMPT_IDS) return YK_OK;
  if (prompt->kind == YK_PROMPT_TEXT) {
    prompt->text = prompt->argument;
    prompt->n_bytes = strlen(prompt->argument);
    return YK_OK;
  }
  YK_TRY(yk_cli_read_text(prompt->argument, PROMPT_FILE_MAX_BYTES, &prompt->owned, &prompt->n_bytes, err));
  if (prompt->n_bytes && prompt->owned[prompt->n_bytes - 1] == '\n') prompt->owned[--prompt->n_bytes] = '\0';
  prompt->text = prompt->owned;
  return YK_OK;
}

yk_status yk_prompts_load(yk_prompts *prompts, yk_err *err)
{
  if (prompts->n == 0) {
    if (isatty(STDIN_FILENO)) fputs("yoke: type a prompt, then Ctrl-D on a new line\n", stderr);
    if (!add(prompts, YK_PROMPT_FILE, "-", err)) return YK_E_NOMEM;
  }
  for (size_t i = 0; i < prompts->n; i++) YK_TRY(load(&prompts->items[i], err));
  return YK_OK;
}

void yk_prompt_print(const yk_prompt *prompt)
{
  fputs("> ", stdout);
  for (size_t i = 0; i < prompt->n_ids; i++) printf("%s%d", i ? "," : "", prompt->ids[i]);
  for (size_t i = 0; i < prompt->n_bytes; i++) {
    putchar(prompt->text[i]);
    if (prompt->text[i] == '\n') fputs("> ", stdout);
  }
  putchar('\n');
}

void yk_prompts_free(yk_prompts *prompts)
{
  for (size_t i = 0; i < prompts->n; i++) {
    free(prompts->items[i].owned);
    free(prompts->items[i].ids);
  }
  free(prompts->items);
}
