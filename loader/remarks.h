/* remarks.h - warnings about oddities of a usable checkpoint, one per kind. Not for use outside the loader. */
#ifndef YK_LOADER_REMARKS_H
#define YK_LOADER_REMARKS_H

#include "base/log.h"
#include "loader/hf/hf_config.h"
#include "loader/safetensors/shards.h"

/* yk_remarks_write - warn about layers whose format or bias contradicts the configuration, and about tensors that the
 *   model does not use (layers beyond the last, group indices, experts, adapters ...), each with their number and the
 *   first name.
 *   Errors: YK_E_NOMEM. */
yk_status yk_remarks_write(const yk_model_config *config, const yk_shards *shards, const yk_log *log, yk_err *err);

#endif
