/* exchange.h - data exchange between the processes of a run before ranks can communicate: NCCL's id, handles of memory
 * that peers write to. Each start-up mechanism is one implementation. */
#ifndef YK_PARALLEL_EXCHANGE_H
#define YK_PARALLEL_EXCHANGE_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_exchange {
  int process, n_processes; /* in the order of their ranks */
  /* mine [n_bytes], equal size in all processes, goes to all + process * n_bytes in every process. Every process
   * makes the same calls in the same order; returns once all have made this call. Errors: YK_E_COMM. Thread: one at
   * a time. */
  yk_status (*all_gather)(const struct yk_exchange *exchange, const void *mine, size_t n_bytes, void *all, yk_err *err);
  void *context;
} yk_exchange;

/* yk_exchange_alone - the exchange of a run with one process. */
yk_exchange yk_exchange_alone(void);

#endif
