/* profile.h - time of an engine's steps by operation: sums over steps, and traces of single steps. */
#ifndef YOKE_API_PROFILE_H
#define YOKE_API_PROFILE_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts of a step's time on a rank; the parts of a rank add up to the step. */
typedef enum yk_time_part {
  YK_TIME_GEMM_QKV,
  YK_TIME_GEMM_O,
  YK_TIME_GEMM_GATE_UP,
  YK_TIME_GEMM_DOWN,
  YK_TIME_LM_HEAD,
  YK_TIME_ATTENTION,
  YK_TIME_OTHER_KERNELS, /* embedding, norms, rotary embedding and KV write, row selection, upload */
  YK_TIME_ALL_REDUCE_TRANSFER,
  YK_TIME_ALL_REDUCE_WAIT, /* waiting for the slowest rank; rows from and to other pipeline stages */
  YK_TIME_LOGITS_GATHER,
  YK_TIME_SAMPLING,   /* on ranks other than 0: waiting for rank 0 */
  YK_TIME_LAUNCH_GAP, /* of the forward, before the device began and after it ended */
  YK_TIME_HOST,       /* outside the forward: planning, handing out, waking the ranks; steps in other stages */
  YK_TIME_STATES,     /* recurrent layers in place of attention, without their projections */
  YK_TIME_PARTS,
  YK_MAX_TIME_PARTS = 32 /* capacity for parts of later versions */
} yk_time_part;

/* yk_time_part_name - "gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
 *   "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host", "states". */
const char *yk_time_part_name(yk_time_part part);

/* Sums over the timed steps. */
typedef struct yk_step_times {
  uint64_t n_steps;
  /* From the start of a step to the start of the next, or to the step's end. With pipeline stages always to its end:
   * steps overlap. */
  double step_s;
  double part_s[YK_MAX_RANKS][YK_MAX_TIME_PARTS];
  uint64_t n_all_reduces;
  uint64_t slowest[YK_MAX_RANKS]; /* how often each rank was the last to reach an all-reduce */
  double timestamp_cost_s;        /* time of the timestamps themselves, subtracted from step_s and from the parts */
} yk_step_times;

typedef struct yk_profile {
  size_t struct_size;
  int n_ranks;
  double clock_resolution_s;     /* of the devices' clocks; 0 before the first timed step */
  yk_step_times prefill, decode; /* steps with prompt rows; steps without */
} yk_profile;

/* yk_engine_set_profile - time every n-th step; 1 leaves one step in 16 untimed, 0 times none. Sums restart at zero.
 *   A timed step takes a timestamp before each operation of each rank; other steps run as without a profile. On a GPU a
 *   timestamp is a separate kernel that takes half a microsecond, so a timed decode step takes 3 to 8 % longer. This
 *   cost is measured and subtracted from the parts: measured by pairs of consecutive decode steps with equally many
 *   rows, one timed and one untimed; until there are such pairs, by a chain of timestamps. Steps that record a graph
 *   are not counted: on a GPU the first timed decode of each size.
 *   Errors: YK_E_INVAL (a negative number). Thread: any, while requests run too. */
yk_status yk_engine_set_profile(yk_engine *engine, int32_t every, yk_err *err);

/* yk_engine_get_profile - the sums up to now. A step is counted when the next step begins or no work is left. Thread:
 *   any. */
void yk_engine_get_profile_sized(yk_engine *engine, yk_profile *out, size_t struct_size);
static inline void yk_engine_get_profile(yk_engine *engine, yk_profile *out)
{
  yk_engine_get_profile_sized(engine, out, sizeof *out);
}

/* A few steps as slices of time, operation by operation, in a file for Perfetto (ui.perfetto.dev) or
 * chrome://tracing. */
typedef struct yk_trace yk_trace;

enum { YK_TRACE_STEPS = 64 }; /* a reasonable number: some megabytes */

/* yk_trace_create - open the file at path. The file is written when the trace holds max_steps steps, or by
 *   yk_trace_finish. Errors: YK_E_INVAL, YK_E_IO (the file), YK_E_NOMEM. */
yk_status yk_trace_create(const char *path, int32_t max_steps, yk_trace **out, yk_err *err);

/* yk_engine_set_trace - times the engine's next steps, independent of the profile, and add them to the trace until the
 *   trace is full; NULL: stop. A trace belongs to one engine at a time. The trace must outlive the engine, or be
 *   removed by NULL before. Thread: any. */
void yk_engine_set_trace(yk_engine *engine, yk_trace *trace);

/* yk_trace_finish - write the steps that are not written yet, and free the trace; no engine may have the trace. NULL is
 *   allowed. Errors: YK_E_IO, also from an earlier write; YK_E_NOMEM if slices were lost. */
yk_status yk_trace_finish(yk_trace *trace, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
