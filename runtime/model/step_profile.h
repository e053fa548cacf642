/* step_profile.h - when a rank's device began each operation of a step that is timed.
 *
 * Before every operation of such a step its device writes its clock into a table, once all that came before has ended
 * (timestamp of kernels/device.h); one more stamp marks the end. So what lies between two stamps is one operation, with
 * the pause before its start. The table is read when the step is over. Steps that are not timed have no stamps; on
 * devices that record decode steps as graphs, timed ones have graphs of their own.
 *
 * A stamp is work of its own: a kernel of one thread on a GPU, which takes about half a microsecond and keeps the next
 * kernel from beginning before the previous one has ended; a look at the clock on a CPU. A chain of stamps measures
 * that when the model is built. Owner: a model. Thread: the rank's own; others read between steps. */
#ifndef YK_MODEL_STEP_PROFILE_H
#define YK_MODEL_STEP_PROFILE_H

#include "kernels/device.h"

typedef enum yk_operation_kind {
  YK_OPERATION_GEMM_QKV,
  YK_OPERATION_GEMM_O,
  YK_OPERATION_GEMM_GATE_UP,
  YK_OPERATION_GEMM_DOWN,
  YK_OPERATION_LM_HEAD,
  YK_OPERATION_ATTENTION,
  YK_OPERATION_OTHER,
  YK_OPERATION_ALL_REDUCE,
  YK_OPERATION_GATHER,
  YK_OPERATION_SAMPLING,
  YK_OPERATION_END,    /* everything has ended: the last stamp */
  YK_OPERATION_UNTIMED /* consists of operations that are timed themselves */
} yk_operation_kind;

typedef struct yk_timed_operation {
  yk_operation_kind kind;
  int32_t layer; /* or YK_OUTSIDE_LAYERS */
  const char *name;
} yk_timed_operation;

typedef struct yk_step_profile {
  int32_t n, capacity;            /* stamps of the step, and how many there may be */
  yk_timed_operation *operations; /* [n]; the last is of kind YK_OPERATION_END */
  int64_t *begin_ns;              /* [n] on the device's clock, once the step is over */
  int64_t *table;                 /* [capacity] device */
  int32_t n_recorded;             /* stamps up to the last one that decode graphs hold */
  bool is_whole;                  /* the step can be counted: no graph was recorded, every operation had its stamp */
  double stamp_ns;                /* what a stamp takes in a chain of stamps */
  int64_t resolution_ns;          /* the clock's readings are multiples of so much apart */
  int64_t forward_begin_ns, forward_end_ns; /* the whole forward, on the host's clock (yk_clock_now_ns) */
  int64_t read_end_ns;                      /* when the stamps had been read */
} yk_step_profile;

/* yk_step_profile_capacity - stamps of the largest step of such a model. */
int32_t yk_step_profile_capacity(int32_t n_layers, const yk_device_limits *limits);

/* yk_step_profile_create - memory of the host for so many stamps, and what one takes. table: of the device, not owned.
 *   Errors: YK_E_NOMEM, the device's. */
yk_status yk_step_profile_create(yk_step_profile *profile, yk_device *dev, int32_t capacity, int64_t *table,
                                 yk_err *err);
void yk_step_profile_destroy(yk_step_profile *profile);

/* yk_step_profile_begin - a step that is timed begins. */
void yk_step_profile_begin(yk_step_profile *profile);

/* yk_step_profile_stamp - an operation begins. One that repeats the operation before is counted to that one. */
yk_status yk_step_profile_stamp(yk_step_profile *profile, yk_device *dev, const yk_timed_operation *operation,
                                yk_err *err);

/* yk_step_profile_rewind - what follows is recorded as a graph: its stamps begin again at place n. */
void yk_step_profile_rewind(yk_step_profile *profile, int32_t n);

/* yk_step_profile_recorded - the graph is whole. Every graph has the stamps of all layers at the same places. */
void yk_step_profile_recorded(yk_step_profile *profile);

/* yk_step_profile_replayed - a graph with its stamps has been launched. */
void yk_step_profile_replayed(yk_step_profile *profile);

/* yk_step_profile_end - the step is over: read the stamps. Errors: the device's. */
yk_status yk_step_profile_end(yk_step_profile *profile, yk_device *dev, yk_err *err);

#endif
