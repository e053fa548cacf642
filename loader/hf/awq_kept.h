/* awq_kept.h - the linear layers of an AWQ checkpoint that stay unquantised: their names in config.json, and whether
 * vLLM can load the checkpoint. */
#ifndef YK_LOADER_AWQ_KEPT_H
#define YK_LOADER_AWQ_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

/* Modules ("model.layers.3.mlp.experts.7.up_proj") of a checkpoint to write. */
typedef struct yk_awq_modules {
  const char *const *kept; /* [n_kept] of 16 or 32 bits; the experts of a layer are adjacent */
  size_t n_kept;
  const char *const *quantised; /* [n_quantised] of 4 bits, in ascending order (strcmp) */
  size_t n_quantised;
} yk_awq_modules;

/* yk_awq_kept_append - append the names for modules_to_not_convert to list, as JSON strings separated by ", ": full
 *   names, but a single name for all experts of a layer if none is quantised ("model.layers.3.mlp.experts"), because
 *   other programs have them as one module. Readers search the entries anywhere in a module's name (vLLM, transformers
 *   4), or at its beginning and end (transformers 5). */
void yk_awq_kept_append(const yk_awq_modules *modules, yk_strbuf *list);

/* yk_awq_kept_warn - warn about layers that vLLM 0.32 refuses: fused layers (q, k and v; gate and up; q_a and kv_a; the
 *   experts of a layer) that are quantised in part, and experts with one group for all inputs.
 *   group_size: -1 for one group over all inputs. Thread: any. */
void yk_awq_kept_warn(const yk_awq_modules *modules, int32_t group_size, const yk_log *log);

#endif
