/* config_changes.h - members of a checkpoint's JSON files that the caller replaces when it opens the checkpoint. */
#ifndef YK_LOADER_CONFIG_CHANGES_H
#define YK_LOADER_CONFIG_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* NULL and false everywhere: nothing. */
typedef struct yk_config_changes {
  const char *config;     /* a JSON object whose members take the place of config.json's */
  const char *generation; /* the same for generation_config.json, which need not exist */
  /* The directory of generation_config.json, where the file must exist; NULL: the checkpoint's, where it need not. */
  const char *generation_dir;
  bool has_plain_sampling; /* only the ids of tokens count in generation_config.json */
} yk_config_changes;

/* yk_config_changes_apply_config - *text [*n_bytes], which is malloc'd, becomes config.json as it is to be read.
 *   Members are replaced as wholes. Where changes name rope_scaling or rope_theta, a rope_parameters of the file gives
 *   way: its members that they do not name stay, under the older names. Where they name rope_parameters, older names
 *   give way.
 *   Errors: YK_E_INVAL ("hf_overrides: ..."), YK_E_FORMAT (the file), YK_E_NOMEM. *text is then as before. */
yk_status yk_config_changes_apply_config(const yk_config_changes *changes, char **text, size_t *n_bytes, yk_err *err);

/* yk_config_changes_apply_generation - the same for generation_config.json, where *text may be NULL. A temperature that
 *   is given stands for sampling, unless do_sample is given too.
 *   Errors: the same, with "override_generation_config: ...". */
yk_status yk_config_changes_apply_generation(const yk_config_changes *changes, char **text, size_t *n_bytes,
                                             yk_err *err);

#endif
