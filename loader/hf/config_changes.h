/* config_changes.h - members of a checkpoint's JSON files that the caller replaces when opening the checkpoint. */
#ifndef YK_LOADER_CONFIG_CHANGES_H
#define YK_LOADER_CONFIG_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

/* All NULL and false: no changes. dense_beyond_index concerns no file. */
typedef struct yk_config_changes {
  const char *config;     /* a JSON object whose members replace those of config.json */
  const char *generation; /* the same for generation_config.json, which may be missing */
  /* Directory of generation_config.json, where the file must exist. NULL: the checkpoint's directory, where it may be
   * missing. */
  const char *generation_dir;
  bool has_plain_sampling; /* only token ids are read from generation_config.json */
  /* Sparse attention is computed as dense attention for any context, not only up to index_topk tokens. */
  bool dense_beyond_index;
} yk_config_changes;

/* yk_config_changes_apply_config - replace *text [*n_bytes], malloc'd, by config.json with the changes applied. Members
 *   are replaced as a whole, except for text_config, whose members are merged. Where the file has a text_config, other
 *   members replace the file's there too. Rotary scaling is replaced as a whole, while bases and the share that rotates
 *   stay unless they are given, under either name (rope_theta, rope_parameters). Keys of the file that would override a
 *   changed key (layer_types for max_window_layers) are dropped.
 *   Errors: YK_E_INVAL ("hf_overrides: ..."), YK_E_FORMAT (the file), YK_E_NOMEM. *text then still is a text. */
yk_status yk_config_changes_apply_config(const yk_config_changes *changes, char **text, size_t *n_bytes, yk_err *err);

/* yk_config_changes_apply_generation - the same for generation_config.json, where *text may be NULL. A given
 *   temperature implies sampling, unless do_sample is given too.
 *   Errors: the same, with "override_generation_config: ...". */
yk_status yk_config_changes_apply_generation(const yk_config_changes *changes, char **text, size_t *n_bytes,
                                             yk_err *err);

/* yk_config_changes_check - refuses a change that no reader has read in config and generation, the roots of the merged
 *   documents, watched (yk_json_watch) while they were read. Errors: YK_E_INVAL, with the key; YK_E_NOMEM. */
yk_status yk_config_changes_check(const yk_config_changes *changes, yk_json config, yk_json generation, yk_err *err);

#endif
