/* step_profile.h - the time at which a rank's device began each operation of a timed step.
 *
 * Before every operation of a timed step, the device writes its clock into a table once all earlier work has ended
 * (timestamp of kernels/device.h); one more stamp marks the end. The time between two stamps is one operation with the
 * pause before its start. The table is read when the step is over. Steps that are not timed have no stamps. Devices
 * that record decode steps as graphs keep separate graphs for timed steps.
 *
 * A stamp is work itself. On a GPU a stamp is a kernel of one thread, which takes about half a microsecond and keeps
 * the next kernel from beginning before the previous one has ended; on a CPU a stamp is a clock read. A chain of stamps
 * measures this cost when the model is built. An operation that runs whole layers writes the stamps of its parts
 * itself. Owner: a model. Thread: the rank's own; other threads read between
 * steps. */
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
  YK_OPERATION_STATES, /* recurrent layers in place of attention */
  YK_OPERATION_OTHER,
  YK_OPERATION_ALL_REDUCE,
  YK_OPERATION_GATHER,
  YK_OPERATION_SAMPLING,
  YK_OPERATION_STAGES, /* messages between pipeline stages */
  YK_OPERATION_END,    /* the last stamp: all operations have ended */
  YK_OPERATION_UNTIMED /* made up of operations that are timed themselves */
} yk_operation_kind;

typedef struct yk_timed_operation {
  yk_operation_kind kind;
  int32_t layer; /* or YK_OUTSIDE_LAYERS */
  const char *name;
  bool is_internal; /* part of another operation, which wrote the stamp while it ran: the stamp took no time */
} yk_timed_operation;

typedef struct yk_step_profile {
  int32_t n, capacity;            /* stamps of the step, and the most that fit */
  yk_timed_operation *operations; /* [n]; the last is of kind YK_OPERATION_END */
  int64_t *begin_ns;              /* [n] on the device's clock, once the step is over */
  int64_t *table;                 /* [capacity] device */
  bool is_whole;                  /* the step may be counted: no graph was recorded, and every operation has a stamp */
  double stamp_ns;                /* cost of a stamp, measured in a chain of stamps */
  int64_t resolution_ns;          /* clock readings differ by multiples of this */
  int64_t forward_begin_ns, forward_end_ns; /* the whole forward, on the host's clock (yk_clock_now_ns) */
  int64_t read_end_ns;                      /* when the stamps had been read */
} yk_step_profile;

/* The operations whose stamps a recorded graph contains. Graphs differ in them: with the number of rows devices fuse
 * other operations. operations NULL: the graph has no stamps. Owner: the graph's. */
typedef struct yk_graph_stamps {
  int32_t first, n;               /* indices of the stamps in every step that runs the graph: first .. first + n - 1 */
  yk_timed_operation *operations; /* [n] */
} yk_graph_stamps;

/* yk_step_profile_capacity - stamps of the largest step of a stage with n_layers layers. */
int32_t yk_step_profile_capacity(int32_t n_layers, const yk_device_limits *limits);

/* yk_step_profile_create - host memory for `capacity` stamps, and a measurement of the cost of a stamp. table: device
 *   memory, not owned.
 *   Errors: YK_E_NOMEM, those of the device. */
yk_status yk_step_profile_create(yk_step_profile *profile, yk_device *dev, int32_t capacity, int64_t *table,
                                 yk_err *err);
void yk_step_profile_destroy(yk_step_profile *profile);

/* yk_step_profile_begin - a timed step begins. */
void yk_step_profile_begin(yk_step_profile *profile);

/* yk_step_profile_stamp - an operation begins. Repetitions of the previous operation add to that operation's time. */
yk_status yk_step_profile_stamp(yk_step_profile *profile, yk_device *dev, const yk_timed_operation *operation,
                                yk_err *err);

/* yk_step_profile_add - an operation without its stamp, which the caller writes: for the parts of an operation of the
 *   device that stamps them itself. Returns the place of the stamp in device memory; consecutive calls return
 *   consecutive places. NULL: there is no room, and the step is not whole. */
int64_t *yk_step_profile_add(yk_step_profile *profile, const yk_timed_operation *operation);

/* yk_step_profile_rewind - the following operations are recorded as a graph: their stamps begin at index n again. */
void yk_step_profile_rewind(yk_step_profile *profile, int32_t n);

/* yk_step_profile_recorded - the graph is complete, with the stamps from index first on. The caller frees
 *   out->operations. Errors: YK_E_NOMEM. */
yk_status yk_step_profile_recorded(const yk_step_profile *profile, int32_t first, yk_graph_stamps *out, yk_err *err);

/* yk_step_profile_replayed - a graph with these stamps has been launched. */
void yk_step_profile_replayed(yk_step_profile *profile, const yk_graph_stamps *stamps);

/* yk_step_profile_end - the step is over: read the stamps. Errors: those of the device. */
yk_status yk_step_profile_end(yk_step_profile *profile, yk_device *dev, yk_err *err);

#endif
