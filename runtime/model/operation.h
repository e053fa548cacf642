/* operation.h - which operation of a step a rank is at, so that errors and stalls can be named. */
#ifndef YK_MODEL_OPERATION_H
#define YK_MODEL_OPERATION_H

#include <stdatomic.h>

#include "base/status.h"
#include "model/step_profile.h"

enum { YK_OUTSIDE_LAYERS = -1 };

/* Written by the rank's thread, read by any. */
typedef struct yk_operations {
  int rank;
  _Atomic(const char *) name; /* of the one that was begun last; NULL before the first */
  atomic_int layer;           /* YK_OUTSIDE_LAYERS, or the layer that the operation belongs to */
  atomic_int n_begun;         /* in the step under way; 0 between steps */
  atomic_bool is_stopped;
  yk_device *dev;           /* not owned */
  yk_step_profile *profile; /* of the step under way where that is timed, else NULL; the rank's own thread's */
} yk_operations;

/* yk_operation_begin - note the operation, with a timestamp in a step that is timed.
 *   Errors: YK_E_COMM once the rank was told to stop, the device's. Thread: the rank's. */
yk_status yk_operation_begin(yk_operations *operations, yk_operation_kind kind, int layer, const char *name,
                             yk_err *err);

/* yk_operation_name_error - say in err, where status is not YK_OK, which operation failed. Returns status. */
yk_status yk_operation_name_error(const yk_operations *operations, int layer, const char *name, yk_status status,
                                  yk_err *err);

/* YK_RUN - one operation: begun, run, and named where it fails, which returns from the caller.
 *   kind: the end of the name of a yk_operation_kind. */
#define YK_RUN(operations, kind, layer, name, call)                                                                    \
  do {                                                                                                                 \
    YK_TRY(yk_operation_begin((operations), YK_OPERATION_##kind, (layer), (name), err));                               \
    YK_TRY(yk_operation_name_error((operations), (layer), (name), (call), err));                                       \
  } while (0)

#endif
