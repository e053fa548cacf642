/* repack_floats.h - a slice of a quantised weight as floats. Not for use outside the loader. */
#ifndef YK_LOADER_REPACK_FLOATS_H
#define YK_LOADER_REPACK_FLOATS_H

#include "base/cpu_pool.h"
#include "base/status.h"
#include "loader/repack_request.h"

/* yk_repack_floats - write the slice, with outputs in the request's order, to `to` [n, k] in the request's dtype. pool:
 *   threads that share the work, or NULL; bytes and errors do not depend on the pool. Errors: YK_E_NOMEM; those of
 *   yk_dequantise. Thread: any. */
yk_status yk_repack_floats(const yk_repack_request *request, yk_cpu_pool *pool, void *to, yk_err *err);

#endif
