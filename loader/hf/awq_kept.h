/* awq_kept.h - the linear layers of an AWQ checkpoint that stay as they are: how its config.json names them, and
 * whether vLLM can load what is left. */
#ifndef YK_LOADER_AWQ_KEPT_H
#define YK_LOADER_AWQ_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

/* Modules ("model.layers.3.mlp.experts.7.up_proj") of a checkpoint that is to be written. */
typedef struct yk_awq_modules {
  const char *const *kept; /* [n_kept] of 16 or 32 bits, those of one layer's experts in a row */
  size_t n_kept;
  const char *const *quantised; /* [n_quantised] of 4 bits, rising as strcmp orders them */
  size_t n_quantised;
} yk_awq_modules;

/* yk_awq_kept_append - append the names of modules_to_not_convert to list, as JSON strings with ", " between: whole
 *   names, but one for all experts of a layer where they all stay ("model.layers.3.mlp.experts"), which are one module
 *   elsewhere. Readers look for the entries anywhere in a module's name (vLLM, transformers 4), or at its beginning and
 *   its end (transformers 5). */
void yk_awq_kept_append(const yk_awq_modules *modules, yk_strbuf *list);

/* yk_awq_kept_warn - warn of what vLLM 0.32 refuses: layers that it makes one of (q, k and v; gate and up; q_a and
 *   kv_a; the experts of a layer) of which some stay and some do not, and experts in groups of all inputs.
 *   group_size: -1 for those. Thread: any. */
void yk_awq_kept_warn(const yk_awq_modules *modules, int32_t group_size, const yk_log *log);

#endif
