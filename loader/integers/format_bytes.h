/* format_bytes.h - functions shared by the 8-bit formats: rows of bytes with float32 scales. Not for use outside the
 * loader. */
#ifndef YK_LOADER_FORMAT_BYTES_H
#define YK_LOADER_FORMAT_BYTES_H

#include "loader/integers/format.h"

/* Functions for rows of the table. No 8-bit weight is ready as stored, because devices need float32 scales. */
bool yk_bytes_are_ready(const yk_weight_view *weight);
size_t yk_bytes_repacked_bytes(const yk_slice_source *source);
yk_status yk_bytes_repack(const yk_slice_source *source, yk_cpu_pool *pool, void *buffer, yk_repacked_slice *out,
                          yk_err *err);

#endif
