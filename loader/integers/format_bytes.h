/* format_bytes.h - what formats of 8 bits share: rows of bytes with float32 scales. Not for use outside the loader. */
#ifndef YK_LOADER_FORMAT_BYTES_H
#define YK_LOADER_FORMAT_BYTES_H

#include "loader/integers/format.h"

/* Functions of a row of the table. Devices take no bytes as a checkpoint has them, whose scales are no float32. */
bool yk_bytes_are_ready(const yk_weight_view *weight);
size_t yk_bytes_repacked_bytes(const yk_slice_source *source);
yk_status yk_bytes_repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                          yk_err *err);

#endif
