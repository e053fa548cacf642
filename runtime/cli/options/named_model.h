/* named_model.h - the model, or tokenizer, that a command line names: a path, or a name at Hugging Face's hub whose
 * download lies in the local cache. What lies at the path wins. */
#ifndef YK_CLI_NAMED_MODEL_H
#define YK_CLI_NAMED_MODEL_H

#include <stdbool.h>

#include "cli/options/options.h"

typedef struct yk_named_model {
  const char *name;     /* as the command line has it; NULL: it has none */
  const char *revision; /* for the hub's cache; NULL: main */
  const char *cache;    /* the hub's cache; NULL: what the environment says */
  const char *instead;  /* where it is the first operand: what else the user may have meant by that; or NULL */
  char *path;           /* owned; NULL until yk_named_model_find */
} yk_named_model;

/* yk_named_model_check - that one is named. Errors: YK_E_INVAL. */
yk_status yk_named_model_check(const yk_named_model *model, yk_err *err);

/* yk_named_model_find - fill path. needs_weights: an incomplete download is refused; else one that is enough for a plan
 *   or for a tokenizer will do.
 *   Errors: YK_E_IO (nothing lies there; the download command, where it is a name of the hub), YK_E_NOMEM, those of
 *   yk_hub_find. */
yk_status yk_named_model_find(yk_named_model *model, bool needs_weights, yk_err *err);
void yk_named_model_free(yk_named_model *model);

/* yk_named_model_options - the options of a model for a command's table: --model with this help, --revision and
 *   --download-dir. They store into *model, which must not move. */
enum { YK_NAMED_MODEL_OPTIONS = 3 };
void yk_named_model_options(yk_named_model *model, const char *help, yk_option out[YK_NAMED_MODEL_OPTIONS]);

#endif
