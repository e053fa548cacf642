/* remarks.h - what is odd about a checkpoint that can be used all the same: one warning for each kind. Not for use
 * outside the loader. */
#ifndef YK_LOADER_REMARKS_H
#define YK_LOADER_REMARKS_H

#include "base/log.h"
#include "loader/hf/hf_config.h"
#include "loader/safetensors/shards.h"

/* yk_remarks_write - warn of layers whose format or bias contradicts the configuration, and of tensors that the model
 *   has no use for (layers beyond the last, group indices, experts, adapters ...), each with their number and the
 *   first.
 *   Errors: YK_E_NOMEM. */
yk_status yk_remarks_write(const yk_model_config *config, const yk_shards *shards, const yk_log *log, yk_err *err);

#endif
