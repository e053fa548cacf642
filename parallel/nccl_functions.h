/* nccl_functions.h - the NCCL functions that ranks on GPUs use. The library is loaded when several ranks are connected:
 * the program, and a single rank, run without it. */
#ifndef YK_PARALLEL_NCCL_FUNCTIONS_H
#define YK_PARALLEL_NCCL_FUNCTIONS_H

#include <nccl.h>

#include "base/status.h"

/* F(member, function of nccl.h) */
#define YK_NCCL_FUNCTIONS(F)                                                                                           \
  F(get_unique_id, ncclGetUniqueId)                                                                                    \
  F(comm_init_rank_config, ncclCommInitRankConfig)                                                                     \
  F(comm_abort, ncclCommAbort)                                                                                         \
  F(comm_get_async_error, ncclCommGetAsyncError)                                                                       \
  F(get_error_string, ncclGetErrorString)                                                                              \
  F(get_last_error, ncclGetLastError)                                                                                  \
  F(group_start, ncclGroupStart)                                                                                       \
  F(group_end, ncclGroupEnd)                                                                                           \
  F(all_reduce, ncclAllReduce)                                                                                         \
  F(all_gather, ncclAllGather)                                                                                         \
  F(send, ncclSend)                                                                                                    \
  F(recv, ncclRecv)

typedef struct yk_nccl_functions {
#define MEMBER(member, function) __typeof__(function) *member;
  YK_NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
} yk_nccl_functions;

/* yk_nccl_load - fills the table from libnccl of the major version that this program was built with.
 *   NVLink multicast (NVLS) stays off: NCCL reads NCCL_NVLS_ENABLE when it is first used, and yk_nccl_load refuses to
 *   load it in a process where the variable is not 0 (yk_process_init).
 *   Errors: YK_E_UNSUPPORTED, naming the variable, or the library and the loader's message. Thread: any. */
yk_status yk_nccl_load(yk_nccl_functions *table, yk_err *err);

#endif
