/* operation.h - the operation of a step that a rank is running, so that reports of errors and stalls can name it. */
#ifndef YK_MODEL_OPERATION_H
#define YK_MODEL_OPERATION_H

#include <stdatomic.h>

#include "base/status.h"
#include "model/step_profile.h"

enum { YK_OUTSIDE_LAYERS = -1 };

/* Written by the rank's thread, read by any thread. */
typedef struct yk_operations {
  int rank, stage;            /* stage -1: the model has a single one, which messages do not name */
  _Atomic(const char *) name; /* the operation that began last; NULL before the first */
  atomic_int layer;           /* the operation's layer, or YK_OUTSIDE_LAYERS */
  atomic_int n_begun;         /* operations of the current step; 0 between steps */
  atomic_bool is_stopped;
  yk_device *dev;           /* not owned */
  yk_step_profile *profile; /* profile of the current step if the step is timed, else NULL; only the rank's thread */
} yk_operations;

/* yk_operation_begin - record the operation, with a timestamp if the step is timed.
 *   Errors: YK_E_COMM after the rank was stopped, those of the device. Thread: the rank's own. */
yk_status yk_operation_begin(yk_operations *operations, yk_operation_kind kind, int layer, const char *name,
                             yk_err *err);

/* yk_operation_name_error - if status is not YK_OK, add the operation that failed to err. Returns status. */
yk_status yk_operation_name_error(const yk_operations *operations, int layer, const char *name, yk_status status,
                                  yk_err *err);

/* YK_RUN - begin and run one operation. On failure, name the operation in err and return from the caller.
 *   kind: a yk_operation_kind without its prefix. */
#define YK_RUN(operations, kind, layer, name, call)                                                                    \
  do {                                                                                                                 \
    YK_TRY(yk_operation_begin((operations), YK_OPERATION_##kind, (layer), (name), err));                               \
    YK_TRY(yk_operation_name_error((operations), (layer), (name), (call), err));                                       \
  } while (0)

#endif
