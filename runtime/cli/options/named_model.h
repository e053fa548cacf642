/* named_model.h - the model, or tokenizer, named on a command line: a path, or a name on Hugging Face's hub that was
 * downloaded to the local cache. An existing path takes precedence. */
#ifndef YK_CLI_NAMED_MODEL_H
#define YK_CLI_NAMED_MODEL_H

#include <stdbool.h>

#include "cli/options/options.h"

typedef struct yk_named_model {
  const char *name;     /* from the command line; NULL: not given */
  const char *revision; /* for the hub's cache; NULL: main */
  const char *cache;    /* the hub's cache; NULL: from the environment */
  const char *instead;  /* for a model that is the first operand: hint about other meanings of that operand; or NULL */
  char *path;           /* owned; NULL until yk_named_model_find */
} yk_named_model;

/* yk_named_model_check - check that a model is named. Errors: YK_E_INVAL. */
yk_status yk_named_model_check(const yk_named_model *model, yk_err *err);

/* yk_named_model_find - set path. needs_weights: an incomplete download is refused; else a download that suffices for a
 *   plan or a tokenizer is accepted.
 *   Errors: YK_E_IO (no such path; with the download command if the name is one on the hub), YK_E_NOMEM, those of
 *   yk_hub_find. */
yk_status yk_named_model_find(yk_named_model *model, bool needs_weights, yk_err *err);
void yk_named_model_free(yk_named_model *model);

/* yk_named_model_options - the options of a model for a command's table: --model with this help, --revision and
 *   --download-dir. They store into *model, which must not move. */
enum { YK_NAMED_MODEL_OPTIONS = 3 };
void yk_named_model_options(yk_named_model *model, const char *help, yk_option out[YK_NAMED_MODEL_OPTIONS]);

#endif
