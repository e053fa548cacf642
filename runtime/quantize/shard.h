/* shard.h - one weight file of a quantised checkpoint. */
#ifndef YK_QUANTIZE_SHARD_H
#define YK_QUANTIZE_SHARD_H

#include "quantize/run.h"

/* yk_quantize_shard - write one file of the plan and move it to the output directory.
 *   Errors: YK_E_FORMAT naming the tensor, YK_E_IO, YK_E_CANCELLED, YK_E_NOMEM, YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_quantize_shard(yk_quantize_rank *rank, const char *file, yk_err *err);

#endif
